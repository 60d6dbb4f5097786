#include "lacuna/plan/ladder_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lacuna/core/error.h"
#include "lacuna/core/system/memory.h"
#include "lacuna/core/text/text.h"
#include "lacuna/plan/ladder_words.h"

namespace lacuna {
namespace {

// The largest share that a rank gets of a global batch.
uint64_t rank_share(uint64_t batch, const PlanSettings& settings) {
  return (batch + settings.ranks - 1) / settings.ranks;
}

void check(const PlanSettings& settings) {
  if (settings.batch == 0) throw Error("a batch of 0 samples cannot be planned");
  if (settings.ranks == 0 || settings.batch < settings.ranks)
    throw Error("a batch of {} samples cannot be planned for {} ranks; each has at least one",
                settings.batch, settings.ranks);
}

class Planner {
 public:
  Planner(const MaskSizes& sizes, const StepCosts& costs, const Machine& machine,
          const PlanSettings& settings)
      : sizes_(sizes), costs_(costs), machine_(machine), settings_(settings) {}

  RungPlan plan(Rung rung) const {
    RungPlan plan;
    plan.rung = rung;
    count_bytes(plan);
    count_seconds(plan);
    find_lacks(plan);
    return plan;
  }

 private:
  double samples() const { return double(settings_.samples); }
  double ranks() const { return double(settings_.ranks); }
  uint64_t global_batch() const { return std::min(settings_.batch, settings_.samples); }
  double batch() const { return double(rank_share(global_batch(), settings_)); }
  double batches() const { return std::ceil(samples() / double(global_batch())); }
  // How much longer work takes that every rank does with so many threads at once: ranks beyond the
  // cores wait for each other.
  double crowding(double threads) const {
    return std::max(1.0, ranks() * threads / std::max(machine_.cores.value, threads));
  }
  double index_bytes() const { return double(sizes_.index_bytes(uint64_t(batch()))); }

  // Batches that exist at a time.
  double buffers() const { return double(settings_.prefetch + 2); }
  // Of those with masks, validation has some of its own, for twice as many samples.
  double mask_buffers() const { return buffers() + 2 * double(kMasksAheadToPredict + 1); }

  // Masks beside those that the loader made, as so many batches of them. Validation predicts two
  // batches' worth at a time while training keeps what it has.
  static constexpr double kPredicted = 2;
  double copies_in_memory(Rung rung) const {
    if (!loads_masks(rung)) return 0;
    const double on_the_way = machine_.gpu ? 2 : 0;  // from which the GPU fetches them
    if (fills_records(rung)) return on_the_way;      // side by side, read where they lie
    return (machine_.gpu ? on_the_way : 1) + kPredicted;
  }
  double copies_on_device(Rung rung) const {
    if (!has_masks(rung)) return 0;
    return (loads_masks(rung) ? kFed : 1) + kPredicted;
  }
  // On a GPU: the batch that is used, the one that arrives, and the one that a recorded step reads.
  static constexpr double kFed = 3;

  void count_bytes(RungPlan& plan) const {
    const FormSize& form = sizes_.of(mask_form(plan.rung));
    const double masks = batch() * sizes_.u8.record;
    if (is_stored(plan.rung)) plan.disk_bytes = samples() * form.stored;
    if (is_made_before(plan.rung)) plan.read_bytes = batch() * form.record;

    plan.memory_bytes = buffers() * index_bytes();
    if (fills_records(plan.rung)) plan.memory_bytes += mask_buffers() * masks;
    if (is_held(plan.rung)) plan.shared_bytes = samples() * form.record;
    plan.memory_bytes += plan.shared_bytes;
    if (makes_masks_in_loader(plan.rung)) plan.memory_bytes += double(sizes_.table);
    plan.memory_bytes += copies_in_memory(plan.rung) * masks;

    plan.moved_bytes = index_bytes() + (loads_masks(plan.rung) ? masks : 0);
    const double table = makes_masks_on_device(plan.rung) ? double(sizes_.table) : 0;
    if (machine_.gpu)
      plan.device_bytes =
          copies_on_device(plan.rung) * masks + table + (kFed + kPredicted) * index_bytes();
    else if (makes_masks_on_device(
                 plan.rung))  // made by a step and gone with it: validation's are more
      plan.memory_bytes += kPredicted * masks + table;
  }

  double loader_seconds(Rung rung) const {
    const FormCosts& form = costs_.of(mask_form(rung));
    double record = 0;
    if (is_stored(rung)) record += costs_.look_up;
    if (fills_records(rung)) record += makes_masks_in_loader(rung) ? costs_.update : form.expand;
    // Measured for the batch that was asked for.
    return crowding(costs_.threads) *
           ((loads_masks(rung) ? costs_.handed : costs_.indices) + batch() * record);
  }

  double later_seconds(const RungPlan& plan) const {
    const double masks = batch() * sizes_.u8.record;
    double seconds = machine_.gpu ? plan.moved_bytes / machine_.gpu->link.value : 0;
    if (!makes_masks_on_device(plan.rung)) return seconds;
    // Without a GPU by the thread that trains, which the loader's threads do not help.
    return seconds + (machine_.gpu ? masks / machine_.gpu->bandwidth.value
                                   : batch() * costs_.update * costs_.threads * crowding(1));
  }

  // The share of the store that memory cannot hold is read from the disk again in every epoch.
  double cold_seconds(const RungPlan& plan) const {
    if (!is_stored(plan.rung)) return 0;
    const double cache = std::max(0.0, machine_.memory.value - ranks() * plan.memory_bytes);
    const double share = std::max(0.0, 1 - cache / plan.disk_bytes);
    return share * double(global_batch()) * plan.disk_bytes / samples() / machine_.disk_read.value;
  }

  void count_seconds(RungPlan& plan) const {
    const FormCosts& form = costs_.of(mask_form(plan.rung));
    const double records = buffers() * batch();
    if (is_stored(plan.rung))
      plan.prepare_seconds =
          std::max(samples() * form.make, plan.disk_bytes / machine_.disk_write.value);
    if (is_held(plan.rung)) {
      const double share = sizes_.of(mask_form(plan.rung)).record / sizes_.u8.record;
      plan.start_seconds = samples() * (form.make + share * costs_.first);  // by one for all
    }
    if (fills_records(plan.rung))
      plan.start_seconds += records * costs_.first * crowding(costs_.threads);
    plan.batch_seconds = loader_seconds(plan.rung);
    plan.later_seconds = later_seconds(plan);
    plan.cold_seconds = cold_seconds(plan);
    plan.epoch_seconds = batches() * (plan.batch_seconds + plan.later_seconds + plan.cold_seconds);
    plan.total_seconds =
        plan.prepare_seconds + plan.start_seconds + double(settings_.epochs) * plan.epoch_seconds;
  }

  void find_lacks(RungPlan& plan) const {
    const auto compare = [&](double bytes, double free, const char* where) {
      if (bytes * kRoomMargin <= free) return;
      plan.lacks.push_back(fmt::format("needs {} {} with 20% margin, {} free",
                                       format_bytes(uint64_t(bytes * kRoomMargin)), where,
                                       format_bytes(uint64_t(free))));
    };
    compare(plan.disk_bytes, machine_.disk_free.value, "on disk");
    const double own = plan.memory_bytes - plan.shared_bytes;
    compare(ranks() * own + plan.shared_bytes, machine_.memory.value, "in memory");
    if (machine_.gpu) compare(plan.device_bytes, machine_.gpu->memory.value, "on the GPU");
  }

  const MaskSizes& sizes_;
  const StepCosts& costs_;
  const Machine& machine_;
  const PlanSettings& settings_;
};

void find_pay_back(LadderPlan& ladder) {
  const RungPlan& worker = ladder.of(Rung::worker);
  for (RungPlan& plan : ladder.rungs) {
    if (!is_made_before(plan.rung)) continue;
    const double saved = worker.epoch_seconds - plan.epoch_seconds;
    const double spent = plan.prepare_seconds + plan.start_seconds - worker.start_seconds;
    if (saved > 0) plan.pays_back = std::max(0.0, spent / saved);
  }
}

// The least time in all; of equal ones the one further down the ladder, which keeps less.
const RungPlan* best_of(const std::vector<RungPlan>& rungs, bool with_masks) {
  const RungPlan* best = nullptr;
  for (const RungPlan& plan : rungs) {
    if (!plan.fits() || (with_masks && !has_masks(plan.rung))) continue;
    if (!best || plan.total_seconds <= best->total_seconds) best = &plan;
  }
  return best;
}

}  // namespace

const RungPlan& LadderPlan::of(Rung rung) const {
  return *std::ranges::find(rungs, rung, &RungPlan::rung);
}

LadderPlan plan_ladder(const MaskSizes& sizes, const StepCosts& costs, const Machine& machine,
                       const PlanSettings& settings) {
  if (settings.samples == 0) throw Error("there are no samples to plan for");
  check(settings);
  LadderPlan plan;
  plan.settings = settings;
  const Planner planner(sizes, costs, machine, settings);
  for (const Rung rung : kScreenRungs) plan.rungs.push_back(planner.plan(rung));
  find_pay_back(plan);
  if (const RungPlan* best = best_of(plan.rungs, false)) plan.pick = best->rung;
  if (const RungPlan* best = best_of(plan.rungs, true)) plan.masks_pick = best->rung;
  explain(machine, plan);
  return plan;
}

ScreenPlan plan_screen(const Screen& screen, const Machine& machine, PlanSettings settings,
                       int threads) {
  const uint64_t all = screen.samples().size();
  if (all == 0) throw Error("{} has no samples to plan for", screen.path().string());
  if (settings.samples == 0) settings.samples = all;
  if (settings.prefetch == 0) settings.prefetch = masks_ahead(threads);
  check(settings);
  const RemovalRules rules(screen.graph());
  const MaskEncoder positions(rules, MaskForm::positions);
  ScreenPlan plan;
  plan.sizes = measure_sizes(screen.samples(), rules, positions);
  plan.costs = measure_costs(screen, rules, positions,
                             {.batch = rank_share(settings.batch, settings),
                              .threads = threads,
                              .prefetch = settings.prefetch,
                              .memory = available_memory() / 4});
  plan.ladder = plan_ladder(plan.sizes, plan.costs, machine, settings);
  if (settings.samples != all)
    plan.ladder.notes.push_back(
        fmt::format("planned for {} samples; sizes are those of the {} there are",
                    with_commas(settings.samples), with_commas(all)));
  return plan;
}

Json to_json(const LadderPlan& plan) {
  const auto named = [](const std::optional<Rung>& rung) {
    return rung ? Json(name(*rung)) : Json();
  };
  Json rungs = Json::array();
  for (const RungPlan& rung : plan.rungs) {
    rungs.push_back({{"rung", name(rung.rung)},
                     {"disk_bytes", rung.disk_bytes},
                     {"memory_bytes", rung.memory_bytes},
                     {"device_bytes", rung.device_bytes},
                     {"read_bytes_per_batch", rung.read_bytes},
                     {"moved_bytes_per_batch", rung.moved_bytes},
                     {"prepare_seconds", rung.prepare_seconds},
                     {"start_seconds", rung.start_seconds},
                     {"ms_per_batch", 1000 * rung.batch_seconds},
                     {"later_ms_per_batch", 1000 * rung.later_seconds},
                     {"cold_ms_per_batch", 1000 * rung.cold_seconds},
                     {"epoch_seconds", rung.epoch_seconds},
                     {"total_seconds", rung.total_seconds},
                     {"fits", rung.fits()},
                     {"lacks", rung.lacks},
                     {"pays_back_epochs", rung.pays_back ? Json(*rung.pays_back) : Json()}});
  }
  Json json = {{"samples", plan.settings.samples},
               {"epochs", plan.settings.epochs},
               {"batch", plan.settings.batch},
               {"prefetch", plan.settings.prefetch},
               {"rungs", rungs},
               {"pick", named(plan.pick)},
               {"reason", plan.reason},
               {"masks_pick", named(plan.masks_pick)},
               {"masks_reason", plan.masks_reason},
               {"notes", plan.notes}};
  if (plan.settings.ranks > 1) json["ranks"] = plan.settings.ranks;
  return json;
}

}  // namespace lacuna
