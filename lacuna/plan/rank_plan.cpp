#include "lacuna/plan/rank_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "lacuna/core/error.h"
#include "lacuna/core/text/text.h"
#include "lacuna/masks/mask_sizes.h"
#include "lacuna/plan/ladder_words.h"

namespace lacuna {
namespace {

const MeasuredStep* with_batch(std::span<const MeasuredStep> measured, uint64_t batch) {
  const auto found = std::ranges::find(measured, batch, &MeasuredStep::batch);
  return found == measured.end() ? nullptr : &*found;
}

[[noreturn]] void ask_for_share(const RankPlan& plan, std::span<const MeasuredStep> measured) {
  std::vector<std::string> there;
  for (const MeasuredStep& one : measured)
    there.push_back(fmt::format("{} has batch {}", one.from, one.batch));
  throw Error(
      "each of {} ranks takes {} of the {} samples of a batch, and no profile has that many ({}); "
      "`lacuna profile CONFIG --set train.batch={} --out DIRECTORY` makes one for --profile",
      plan.ranks, plan.share, plan.batch, fmt::join(there, ", "), plan.share);
}

void count_communication(RankPlan& plan, const Machine& machine) {
  const auto ranks = double(plan.ranks), buckets = double(plan.step.buckets);
  plan.sent_bytes = 2 * (ranks - 1) / ranks * double(plan.step.gradient_bytes);
  plan.floor_ms = 1e3 * plan.sent_bytes / plan.link.rate.value;
  const double messages = (buckets + double(kOtherSums)) * 2 * (ranks - 1);
  plan.communication_ms = plan.floor_ms + 1e3 * messages * plan.link.hop.value;
  const bool is_busy =
      !plan.step.is_on_gpu && ranks * double(plan.step.threads) >= machine.cores.value;
  const double early = (buckets - 1) / buckets;  // the last bucket is there when the pass has ended
  if (!is_busy) plan.hidden_ms = early * std::min(plan.floor_ms, plan.step.backward_ms);
}

void count_memory(RankPlan& plan, const Machine& machine) {
  plan.memory_bytes = double(plan.step.peak_bytes);
  const bool is_on_gpu = plan.step.is_on_gpu && machine.gpu;
  if (plan.step.is_on_gpu && !machine.gpu) return;  // profiled elsewhere: nothing to compare with
  const double needed = kRoomMargin * plan.memory_bytes * (is_on_gpu ? 1 : double(plan.ranks));
  const double free = is_on_gpu ? machine.gpu->memory.value : machine.memory.value;
  if (needed > free)
    plan.lacks = fmt::format("needs {} {} with 20% margin, {} free", format_bytes(uint64_t(needed)),
                             is_on_gpu ? "on each GPU" : "in memory", format_bytes(uint64_t(free)));
}

std::string time_text(double count) { return format_digits(count) + " ms"; }
std::string size_text(double count) { return format_bytes(uint64_t(count)); }

std::string step_words(const RankPlan& plan) {
  std::string words = fmt::format("{} ranks, {} of {} samples each: a step of about {}", plan.ranks,
                                  plan.share, plan.batch, time_text(plan.step_ms));
  if (plan.alone_ms)
    words += fmt::format("; one process with all of them takes {}, {} times as long",
                         time_text(*plan.alone_ms), format_digits(*plan.alone_ms / plan.step_ms));
  return words;
}

std::string arithmetic_words(const RankPlan& plan) {
  std::string words =
      fmt::format("arithmetic: {}, measured in {}", time_text(plan.step.ms), plan.step.from);
  if (plan.crowding > 1)
    words += fmt::format("; times {}, since {} ranks of {} threads share the cores",
                         format_digits(plan.crowding), plan.ranks, plan.step.threads);
  return words;
}

std::string communication_words(const RankPlan& plan) {
  return fmt::format(
      "communication: {} of gradients, of which a rank sends {}: at least {} at {}/s ({}), {} with "
      "{} sums that wait for {} messages each ({} a message)",
      size_text(double(plan.step.gradient_bytes)), size_text(plan.sent_bytes),
      time_text(plan.floor_ms), size_text(plan.link.rate.value), plan.link.rate.from,
      time_text(plan.communication_ms), plan.step.buckets + kOtherSums, 2 * (plan.ranks - 1),
      time_text(1e3 * plan.link.hop.value));
}

std::string hidden_words(const RankPlan& plan) {
  if (plan.hidden_ms > 0)
    return fmt::format(
        "hidden: {} of it, behind a backward pass of {}; the last of {} buckets "
        "sets out when that has ended",
        time_text(plan.hidden_ms), time_text(plan.step.backward_ms), plan.step.buckets);
  if (plan.step.buckets == 1)
    return "hidden: nothing, since the gradients fill one bucket, which sets out when the backward "
           "pass has ended";
  return "hidden: nothing, since every core computes, and the sums need the same cores";
}

std::string memory_words(const RankPlan& plan) {
  if (plan.step.peak_bytes == 0) return "memory: not measured by this profile; profile anew";
  std::string words = fmt::format("memory: {} a rank", size_text(plan.memory_bytes));
  if (plan.step.is_on_gpu)
    words += " on its GPU";
  else
    words += fmt::format(", {} in all at most: what is mapped from files lies there once",
                         size_text(double(plan.ranks) * plan.memory_bytes));
  return plan.lacks.empty() ? words : words + "; " + plan.lacks;
}

}  // namespace

RankPlan plan_ranks(uint64_t ranks, uint64_t batch, std::span<const MeasuredStep> measured,
                    const Machine& machine, const Link& link) {
  if (ranks < 2 || batch < ranks)
    throw Error("a batch of {} samples cannot be planned for {} ranks; each has at least one",
                batch, ranks);
  RankPlan plan;
  plan.ranks = ranks;
  plan.batch = batch;
  plan.share = (batch + ranks - 1) / ranks;
  plan.link = link;
  const MeasuredStep* const step = with_batch(measured, plan.share);
  if (!step) ask_for_share(plan, measured);
  plan.step = *step;
  if (const MeasuredStep* whole = with_batch(measured, batch)) plan.alone_ms = whole->ms;
  if (!step->is_on_gpu)
    plan.crowding = std::max(1.0, double(ranks) * step->threads / machine.cores.value);
  plan.arithmetic_ms = step->ms * plan.crowding;
  count_communication(plan, machine);
  count_memory(plan, machine);
  plan.step_ms = plan.arithmetic_ms + plan.communication_ms - plan.hidden_ms;
  return plan;
}

std::vector<std::string> words_of(const RankPlan& plan) {
  return {step_words(plan), arithmetic_words(plan), communication_words(plan), hidden_words(plan),
          memory_words(plan)};
}

Json to_json(const RankPlan& plan) {
  return {{"ranks", plan.ranks},
          {"batch", plan.batch},
          {"share", plan.share},
          {"measured", plan.step.from},
          {"crowding", plan.crowding},
          {"arithmetic_ms", plan.arithmetic_ms},
          {"gradient_bytes", plan.step.gradient_bytes},
          {"sent_bytes", plan.sent_bytes},
          {"floor_ms", plan.floor_ms},
          {"communication_ms", plan.communication_ms},
          {"hidden_ms", plan.hidden_ms},
          {"step_ms", plan.step_ms},
          {"alone_ms", plan.alone_ms ? Json(*plan.alone_ms) : Json()},
          {"memory_bytes", plan.memory_bytes},
          {"lacks", plan.lacks},
          {"link_bytes_per_second", to_json(plan.link.rate)},
          {"hop_seconds", to_json(plan.link.hop)}};
}

}  // namespace lacuna
