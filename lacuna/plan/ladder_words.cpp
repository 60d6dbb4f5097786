#include "lacuna/plan/ladder_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "lacuna/core/text/text.h"

namespace lacuna {
namespace {

std::string bytes(double count) { return format_bytes(uint64_t(count)); }

std::string lacks(const RungPlan& plan) {
  return fmt::format("{} {}", name(plan.rung), fmt::join(plan.lacks, ", and "));
}

const RungPlan* next_best(const LadderPlan& plan, Rung than) {
  const RungPlan* next = nullptr;
  for (const RungPlan& rung : plan.rungs)
    if (rung.fits() && rung.rung != than && (!next || rung.total_seconds < next->total_seconds))
      next = &rung;
  return next;
}

// The rung that would be fastest an epoch if preparing were free.
const RungPlan* fastest_epoch(const LadderPlan& plan) {
  const RungPlan* fastest = nullptr;
  for (const RungPlan& rung : plan.rungs)
    if (rung.fits() && loads_masks(rung.rung) &&
        (!fastest || rung.epoch_seconds < fastest->epoch_seconds))
      fastest = &rung;
  return fastest;
}

std::string why_kernel(const LadderPlan& plan) {
  const RungPlan& kernel = plan.of(Rung::kernel);
  std::string why =
      fmt::format("nothing to store and no mask to make: {} moved a batch, {} to load",
                  bytes(kernel.moved_bytes), format_milliseconds(kernel.batch_seconds));
  if (const RungPlan* next = next_best(plan, Rung::kernel))
    why += fmt::format(
        "; {}, the next best, moves {} and takes {}", name(next->rung), bytes(next->moved_bytes),
        format_milliseconds(next->batch_seconds + next->later_seconds + next->cold_seconds));
  return why;
}

std::string why_device(const Machine& machine, const LadderPlan& plan) {
  const RungPlan& device = plan.of(Rung::device);
  if (!machine.gpu)
    return fmt::format("masks are made in place by the thread that trains, {} a batch",
                       format_milliseconds(device.later_seconds));
  return fmt::format("{} moved a batch instead of {}, and the masks are made on the {}",
                     bytes(device.moved_bytes), bytes(plan.of(Rung::worker).moved_bytes),
                     machine.gpu->name);
}

std::string why_worker(const LadderPlan& plan) {
  const RungPlan& worker = plan.of(Rung::worker);
  std::string why =
      fmt::format("nothing to prepare, {} of memory, {} to load a batch",
                  bytes(worker.memory_bytes), format_milliseconds(worker.batch_seconds));
  const RungPlan* fastest = fastest_epoch(plan);
  if (fastest == &worker || !fastest->pays_back)
    return why + "; no rung that fits makes an epoch shorter";
  return why + fmt::format("; {} would take {} a batch, but pays back only after {}",
                           name(fastest->rung), format_milliseconds(fastest->batch_seconds),
                           format_epochs(*fastest->pays_back));
}

// A rung that makes all masks before the first batch.
std::string why_made_before(const RungPlan& picked, const LadderPlan& plan) {
  const RungPlan& worker = plan.of(Rung::worker);
  const std::string made =
      fmt::format("{} to {}, then {} to load a batch",
                  format_seconds(picked.prepare_seconds + picked.start_seconds),
                  is_stored(picked.rung) ? "prepare once" : "fill memory in every run",
                  format_milliseconds(picked.batch_seconds + picked.cold_seconds));
  if (!worker.fits()) return fmt::format("{}; {}", made, lacks(worker));
  return fmt::format("{} where worker takes {}; pays back after {} of {}", made,
                     format_milliseconds(worker.batch_seconds),
                     format_epochs(picked.pays_back.value_or(0)),
                     with_commas(plan.settings.epochs));
}

std::string why(const Machine& machine, Rung rung, const LadderPlan& plan) {
  if (is_made_before(rung)) return why_made_before(plan.of(rung), plan);
  if (makes_masks_in_loader(rung)) return why_worker(plan);
  return makes_masks_on_device(rung) ? why_device(machine, plan) : why_kernel(plan);
}

}  // namespace

void explain(const Machine& machine, LadderPlan& plan) {
  plan.reason = plan.pick ? why(machine, *plan.pick, plan) : "no rung fits; see the notes";
  plan.masks_reason = plan.masks_pick ? why(machine, *plan.masks_pick, plan)
                                      : "no rung that makes masks fits; see the notes";
  if (plan.settings.ranks > 1)
    plan.notes.push_back(
        fmt::format("{} ranks share memory and disk: figures are of one, what is lacking of all",
                    plan.settings.ranks));
  for (const RungPlan& rung : plan.rungs)
    if (!rung.fits()) plan.notes.push_back(lacks(rung));
  for (const RungPlan& rung : plan.rungs)
    if (rung.fits() && rung.cold_seconds > 0)
      plan.notes.push_back(
          fmt::format("{}: memory cannot hold the store, so a batch waits another {} for the disk",
                      name(rung.rung), format_milliseconds(rung.cold_seconds)));
  if (machine.gpu)
    plan.notes.push_back(fmt::format("an epoch holds the way to the GPU: {} a second ({})",
                                     bytes(machine.gpu->link.value), machine.gpu->link.from));
  else
    plan.notes.push_back("device: without a GPU the masks are made by the thread that trains");
}

std::string format_epochs(double count) {
  const auto whole = uint64_t(std::ceil(count));
  return whole <= 1 ? "1 epoch" : fmt::format("{} epochs", with_commas(whole));
}

std::string format_milliseconds(double seconds) {
  return seconds >= 1 ? format_seconds(seconds) : format_digits(1000 * seconds) + " ms";
}

std::string format_seconds(double seconds) {
  if (seconds <= 0) return "0 s";
  if (seconds < 0.1) return format_milliseconds(seconds);
  if (seconds < 10) return fmt::format("{:.{}f} s", seconds, seconds < 1 ? 2 : 1);
  if (seconds >= 3 * 86400)
    return fmt::format("{} days", with_commas(uint64_t(seconds / 86400 + 0.5)));
  return format_duration(seconds);
}

}  // namespace lacuna
