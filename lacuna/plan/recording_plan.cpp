#include "lacuna/plan/recording_plan.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "lacuna/core/error.h"
#include "lacuna/core/text/text.h"
#include "lacuna/ladder/guards.h"
#include "lacuna/ladder/what_fits.h"
#include "lacuna/ladder/window_memory.h"
#include "lacuna/plan/ladder_words.h"

namespace lacuna {
namespace {

constexpr double kAlike = 1.1;  // total times within this are alike

// Of which a recording offers each, with both choices where there are two.
std::vector<Rung> planned_rungs() {
  std::vector<Rung> rungs;
  for (const Rung rung : kRecordingRungs) {
    if (!is_bytes(rung)) {
      rungs.push_back(rung);
      continue;
    }
    for (const Place place : {Place::worker, Place::device}) {
      rungs.push_back(rung);
      rungs.back().expanded_at = place;
    }
  }
  return rungs;
}

std::string in_words(double bytes) { return format_bytes(uint64_t(std::max(0.0, bytes))); }

class RecordingPlanner {
 public:
  RecordingPlanner(const RecordingSizes& sizes, const RecordingCosts& costs, const Machine& machine,
                   const std::vector<PlanDisk>& disks, const RecordingPlanSettings& settings)
      : sizes_(sizes), costs_(costs), machine_(machine), disks_(disks), settings_(settings) {}

  RecordingRungPlan plan(Rung rung) const {
    RecordingRungPlan plan;
    plan.rung = rung;
    count_bytes(plan);
    count_seconds(plan);
    find_lacks(plan);
    if (held_dtype(rung) == DType::bf16)
      plan.lost = is_floats() ? "rounded to bf16: 3 digits of each value"
                              : "rounded to bf16; all 256 grey levels stay distinct";
    else if (moved(rung) == DType::bf16)
      plan.lost = "";  // what the model computes with
    return plan;
  }

 private:
  bool is_floats() const { return settings_.transforms == FrameTransforms::whole || !sizes_.is_u8; }
  double u8_bytes() const { return sizes_.frame_bytes(); }
  DType moved(Rung rung) const { return moved_dtype(rung, settings_.cast); }
  double ranks() const { return double(settings_.ranks); }
  double window_pixels() const { return double(sizes_.lags) * double(sizes_.pixels); }
  double rank_batch() const {
    return std::ceil(double(std::min(settings_.batch, sizes_.windows)) / ranks());
  }
  double batch_bytes(Rung rung) const {
    if (is_resident(rung)) return rank_batch() * 8;
    return rank_batch() * window_pixels() * double(item_size(moved(rung)));
  }
  double held_bytes(Rung rung) const {
    if (rung.place == Place::tiered) return hot_bytes();
    if (rung.place != Place::ram) return 0;
    if (rung.form == Form::chunks) return u8_bytes() / costs_.ratio;
    return u8_bytes() * double(item_size(held_dtype(rung)));
  }
  // Batches of all ranks, fields beside the movie, and what scoring keeps.
  double beside_bytes(Rung rung) const {
    const uint64_t item = is_resident(rung) ? 0 : item_size(moved(rung));
    const WindowMemory memory = {.batch = std::min(settings_.batch, sizes_.windows),
                                 .window_bytes = sizes_.lags * sizes_.pixels * item,
                                 .row_bytes = sizes_.row_bytes,
                                 .ranks = settings_.ranks,
                                 .threads = uint64_t(settings_.threads),
                                 .has_gpu = machine_.gpu.has_value(),
                                 .most_ahead = uint64_t(settings_.prefetch_bytes),
                                 .field_bytes = sizes_.field_bytes,
                                 .weighed_windows = settings_.is_weighed ? sizes_.windows : 0,
                                 .evaluated_bytes = sizes_.evaluated_bytes};
    return double(memory.bytes());
  }

  // What tiered may hold: what is left of memory, but not more than all.
  double hot_bytes() const {
    const Rung u8 = {Place::disk, Form::u8, Place::device};
    return std::clamp(machine_.memory.value / kRoom - beside_bytes(u8), 0.0, u8_bytes());
  }

  // Of what is drawn, the share that lies in so many bytes of memory: sessions drawn most a byte.
  double hot_share(double bytes) const {
    std::vector<size_t> order(sizes_.session_frames.size());
    std::iota(order.begin(), order.end(), 0);
    const auto share = [&](size_t s) {
      return settings_.shares.empty() ? double(sizes_.session_frames[s]) : settings_.shares.at(s);
    };
    double all = 0, hot = 0;
    for (const size_t s : order) all += share(s);
    std::ranges::stable_sort(order, [&](size_t a, size_t b) {
      return share(a) * double(sizes_.session_frames[b]) >
             share(b) * double(sizes_.session_frames[a]);
    });
    for (const size_t s : order) {
      const double here = double(sizes_.session_frames[s]) * double(sizes_.pixels);
      if (here > bytes) continue;
      bytes -= here;
      hot += share(s);
    }
    return all > 0 ? hot / all : 1;
  }

  void count_bytes(RecordingRungPlan& plan) const {
    const Rung rung = plan.rung;
    if (rung.form == Form::chunks) plan.disk_bytes = u8_bytes() / costs_.ratio;
    // Floats come from a store, whether they are then held in memory or not.
    const bool from_store = is_floats() && settings_.transforms == FrameTransforms::whole;
    if (!is_bytes(rung) && !is_resident(rung) && (rung.place == Place::disk || from_store) &&
        (sizes_.is_u8 || from_store || rung.form != Form::f32))
      plan.disk_bytes = u8_bytes() * double(item_size(held_dtype(rung)));
    plan.memory_bytes = held_bytes(rung) + beside_bytes(rung);
    plan.moved_bytes = batch_bytes(rung);
    if (machine_.gpu)
      plan.device_bytes = 3 * rank_batch() * window_pixels() * double(item_size(settings_.cast)) +
                          (is_resident(rung) ? u8_bytes() : 0);
  }

  // The loader's work on a batch of one rank: reading, unpacking, casting; all threads together.
  double loader_seconds(Rung rung) const {
    if (is_resident(rung)) return rank_batch() * 1e-6;
    const double pixels = rank_batch() * window_pixels();
    const double crowd =
        std::max(1.0, ranks() * double(costs_.threads) / std::max(machine_.cores.value, 1.0));
    const double read =
        rung.place == Place::disk && rung.form != Form::chunks ? costs_.read : costs_.copy;
    double seconds = pixels * double(item_size(held_dtype(rung))) / read;
    if (rung.form == Form::chunks) seconds += 2 * pixels / costs_.unpack;
    if (is_bytes(rung) && rung.expanded_at == Place::worker)
      seconds += std::max(0.0, pixels / costs_.cast - pixels / costs_.copy);
    return crowd * seconds;
  }

  // The share of windows that must come from the disk, once everything has been read once.
  double cold_share(const RecordingRungPlan& plan) const {
    if (plan.rung.place == Place::tiered) {
      const double cache =
          std::max(0.0, machine_.memory.value - plan.memory_bytes) / std::max(1.0, u8_bytes());
      return (1 - hot_share(hot_bytes())) * std::max(0.0, 1 - cache);
    }
    if (plan.rung.place != Place::disk) return 0;
    const double bytes =
        plan.disk_bytes > 0 ? plan.disk_bytes : u8_bytes() * (sizes_.is_u8 ? 1 : 4);
    const double cache = std::max(0.0, machine_.memory.value - plan.memory_bytes);
    return std::max(0.0, 1 - cache / bytes);
  }

  void count_seconds(RecordingRungPlan& plan) const {
    const Rung rung = plan.rung;
    const double disk_read = machine_.disk_read.value;
    if (plan.disk_bytes > 0) {
      const double make = rung.form == Form::chunks ? u8_bytes() / std::max(costs_.pack, 1.0) : 0;
      plan.prepare_seconds =
          std::max({plan.disk_bytes / machine_.disk_write.value, u8_bytes() / disk_read, make});
    }
    if (rung.place == Place::ram || rung.place == Place::tiered)
      plan.start_seconds =
          (plan.disk_bytes > 0 ? plan.disk_bytes : std::min(u8_bytes(), held_bytes(rung))) /
          disk_read;
    if (is_resident(rung)) plan.start_seconds = u8_bytes() / disk_read;
    plan.batch_seconds = loader_seconds(rung);
    const double item = double(item_size(held_dtype(rung)));
    const double read = rung.form == Form::chunks ? 2 / costs_.ratio : item;
    plan.cold_seconds =
        cold_share(plan) * rank_batch() * ranks() * window_pixels() * read / costs_.cold_read;
    const double move =
        machine_.gpu && !is_resident(rung) ? plan.moved_bytes / machine_.gpu->link.value : 0;
    // Without a GPU @device is cast by the thread that trains.
    const double cast = !machine_.gpu && rung.expanded_at == Place::device
                            ? rank_batch() * window_pixels() / costs_.cast * costs_.threads
                            : 0;
    const double batches = std::ceil(double(sizes_.windows) / double(settings_.batch));
    plan.epoch_seconds =
        batches * std::max(std::max({plan.batch_seconds, plan.cold_seconds, move}) + cast,
                           rank_batch() / settings_.demand);
    plan.total_seconds =
        plan.prepare_seconds + plan.start_seconds + double(settings_.epochs) * plan.epoch_seconds;
  }

  void find_lacks(RecordingRungPlan& plan) const {
    const Rung rung = plan.rung;
    if (is_floats() && (is_bytes(rung) || is_resident(rung)))
      plan.lacks.push_back(
          settings_.transforms == FrameTransforms::whole
              ? "what these transforms give are floats, made once from whole segments: a rung of "
                "bytes cannot give them exactly"
              : "the frames are floats as recorded; import them with --narrow where they are whole "
                "numbers");
    if (plan.memory_bytes * kRoom > machine_.memory.value)
      plan.lacks.push_back(fmt::format(
          "needs {} of memory, {} with the margin; {} are free", in_words(plan.memory_bytes),
          in_words(plan.memory_bytes * kRoom), in_words(machine_.memory.value)));
    if (rung.place == Place::tiered && hot_bytes() <= 0)
      plan.lacks.push_back("no memory is left to hold a session in");
    if (is_resident(rung)) {
      if (!machine_.gpu)
        plan.lacks.push_back("needs a GPU, and there is none");
      else if (plan.device_bytes * kRoom > machine_.gpu->memory.value)
        plan.lacks.push_back(
            fmt::format("needs {} of the GPU's memory, {} with the margin; {} are free",
                        in_words(plan.device_bytes), in_words(plan.device_bytes * kRoom),
                        in_words(machine_.gpu->memory.value)));
    }
    if (plan.disk_bytes <= 0) return;
    double most = 0;
    for (const PlanDisk& disk : disks_) {
      most = std::max(most, disk.free);
      if (plan.folder.empty() && plan.disk_bytes * kRoom <= disk.free) plan.folder = disk.folder;
    }
    if (plan.folder.empty())
      plan.lacks.push_back(fmt::format(
          "needs {} of disk, {} with the margin; the largest has {} "
          "free",
          in_words(plan.disk_bytes), in_words(plan.disk_bytes * kRoom), in_words(most)));
  }

  const RecordingSizes& sizes_;
  const RecordingCosts& costs_;
  const Machine& machine_;
  const std::vector<PlanDisk>& disks_;
  const RecordingPlanSettings& settings_;
};

// Where nothing fits without a loss: what would. A rung that reads the recording where it lies
// lacks memory for batches alone; else floats that transforms make lack a disk.
std::string what_would_fit(const RecordingSizes& sizes, const Machine& machine,
                           const std::vector<PlanDisk>& disks, const RecordingPlan& plan) {
  std::vector<std::string> list;
  for (const RecordingRungPlan& rung : plan.rungs)
    if (rung.fits()) list.push_back(fmt::format("{}, {}", name(rung.rung), rung.lost));
  const bool is_floats = plan.settings.transforms == FrameTransforms::whole || !sizes.is_u8;
  const RecordingRungPlan& own = plan.of(is_floats ? "disk:f32" : "disk:u8@device");
  if (own.memory_bytes * kRoom > machine.memory.value) {
    list.push_back(
        fmt::format("a smaller --batch, fewer --ranks or --lags (on {} batches and what stands "
                    "beside the frames take {} of memory)",
                    name(own.rung), in_words(own.memory_bytes)));
    return fmt::format("{}", fmt::join(list, "; "));
  }
  double room = 0;
  for (const PlanDisk& disk : disks) room = std::max(room, disk.free / kRoom);
  list.push_back(fmt::format("a disk with {} free", in_words(4 * sizes.frame_bytes() * kRoom)));
  std::vector<double> sessions;  // as f32
  for (const uint64_t frames : sizes.session_frames)
    sessions.push_back(4 * double(frames) * double(sizes.pixels));
  for (const std::string& way : smaller_ways(sessions, room, sizes.frame)) list.push_back(way);
  return fmt::format("{}", fmt::join(list, "; "));
}

// The least time of those that fit and lose nothing; of those alike, what writes and holds least.
void choose(const RecordingSizes& sizes, const Machine& machine, const std::vector<PlanDisk>& disks,
            RecordingPlan& plan) {
  const RecordingRungPlan* best = nullptr;
  for (const RecordingRungPlan& rung : plan.rungs)
    if (rung.fits() && rung.lost.empty() && (!best || rung.total_seconds < best->total_seconds))
      best = &rung;
  if (!best) {
    plan.reason = fmt::format("no rung fits that loses nothing; what fits: {}",
                              what_would_fit(sizes, machine, disks, plan));
    return;
  }
  const double fastest = best->total_seconds;
  for (const RecordingRungPlan& rung : plan.rungs) {
    if (!rung.fits() || !rung.lost.empty() || rung.total_seconds > kAlike * fastest) continue;
    if (std::make_tuple(rung.disk_bytes, rung.memory_bytes, rung.total_seconds) <
        std::make_tuple(best->disk_bytes, best->memory_bytes, best->total_seconds))
      best = &rung;
  }
  plan.pick = best->rung;
  plan.reason =
      fmt::format("{} for {} epochs", format_seconds(best->total_seconds), plan.settings.epochs);
  plan.reason +=
      best->disk_bytes > 0
          ? fmt::format("; a store of {} in {}", in_words(best->disk_bytes), best->folder.string())
          : "; nothing is written";
  if (best->rung.place == Place::tiered)
    plan.reason += "; the sessions drawn most a byte are held in memory, the others read as needed";
  else if (best->rung.place == Place::disk)
    plan.reason += best->cold_seconds > 0
                       ? "; what memory cannot cache is read again in every epoch"
                       : "; the system's file cache holds all of it";
  else if (best->rung.place == Place::ram)
    plan.reason +=
        fmt::format("; {} held in memory, once for all processes", in_words(best->memory_bytes));
  else
    plan.reason += "; the movie lies on the GPU, and nothing is moved";
  if (best->rung.expanded_at == Place::device)
    plan.reason += "; bytes are moved and become numbers where the model computes";
}

// Against the rung that prepares and loads nothing.
void find_pay_back(const Machine& machine, RecordingPlan& plan) {
  const RecordingRungPlan& own = plan.of(machine.gpu ? "disk:u8@device" : "disk:u8@worker");
  if (!own.fits()) return;
  for (RecordingRungPlan& rung : plan.rungs) {
    const double spent = rung.prepare_seconds + rung.start_seconds;
    const double saved = own.epoch_seconds - rung.epoch_seconds;
    if (spent > 0 && saved > 0) rung.pays_back = spent / saved;
  }
}

void add_notes(const RecordingSizes& sizes, const std::vector<PlanDisk>& disks,
               RecordingPlan& plan) {
  for (const RecordingRungPlan& rung : plan.rungs)
    for (const std::string& lack : rung.lacks)
      plan.notes.push_back(fmt::format("{}: {}", name(rung.rung), lack));
  if (plan.settings.transforms == FrameTransforms::window && sizes.is_u8)
    for (const PlanDisk& disk : disks) {
      const double needed = sizes.frame_bytes() * kRoom;
      plan.notes.push_back(fmt::format(
          "disk:u8 reads the recording where it lies; a copy of its frames needs {} with the "
          "margin, {} {} free in {}",
          in_words(needed), needed <= disk.free ? "and" : "but only", in_words(disk.free),
          disk.folder.string()));
    }
  for (const RecordingRungPlan& rung : plan.rungs)
    if (rung.fits() && !rung.lost.empty())
      plan.notes.push_back(
          fmt::format("{} would take {}, but it loses precision ({}): it is never picked unasked",
                      name(rung.rung), format_seconds(rung.total_seconds), rung.lost));
}

}  // namespace

FrameTransforms frame_transforms_from_names(const std::vector<std::string>& names) {
  // Those of recording/transforms/transform_op.h, by what a row of their result needs.
  constexpr std::array<std::string_view, 9> kWindow = {"normalise",  "scale",     "symlog",
                                                       "split_relu", "cast",      "crop",
                                                       "resize",     "unsqueeze", "columns"};
  constexpr std::array<std::string_view, 7> kWhole = {"difference",  "smooth", "basis", "max_norm",
                                                      "standardise", "whiten", "python"};
  FrameTransforms found = FrameTransforms::window;
  for (const std::string& name : names) {
    if (std::ranges::find(kWhole, name) != kWhole.end())
      found = FrameTransforms::whole;
    else if (std::ranges::find(kWindow, name) == kWindow.end())
      throw UsageError("there is no transform '{}'; of a window: {}; run once: {}", name,
                       fmt::join(kWindow, ", "), fmt::join(kWhole, ", "));
  }
  return found;
}

const RecordingRungPlan& RecordingPlan::of(const std::string& wanted) const {
  for (const RecordingRungPlan& rung : rungs)
    if (name(rung.rung) == wanted) return rung;
  throw Error("there is no rung '{}' in this plan", wanted);
}

RecordingPlan plan_recording(const RecordingSizes& sizes, const RecordingCosts& costs,
                             const Machine& machine, const std::vector<PlanDisk>& disks,
                             const RecordingPlanSettings& settings) {
  if (!(settings.demand > 0))
    throw Error("a model that takes {} windows a second", settings.demand);
  if (settings.batch == 0 || settings.ranks == 0 || settings.batch < settings.ranks)
    throw Error("a batch of {} windows cannot be planned for {} ranks; each has at least one",
                settings.batch, settings.ranks);
  if (!settings.shares.empty() && settings.shares.size() != sizes.session_frames.size())
    throw Error("{} shares for {} sessions", settings.shares.size(), sizes.session_frames.size());
  RecordingPlan plan;
  plan.settings = settings;
  const RecordingPlanner planner(sizes, costs, machine, disks, settings);
  for (const Rung rung : planned_rungs()) plan.rungs.push_back(planner.plan(rung));
  find_pay_back(machine, plan);
  choose(sizes, machine, disks, plan);
  add_notes(sizes, disks, plan);
  return plan;
}

Json to_json(const RecordingPlan& plan) {
  Json rungs = Json::array();
  for (const RecordingRungPlan& rung : plan.rungs)
    rungs.push_back({{"rung", name(rung.rung)},
                     {"disk_bytes", rung.disk_bytes},
                     {"memory_bytes", rung.memory_bytes},
                     {"device_bytes", rung.device_bytes},
                     {"moved_bytes_per_batch", rung.moved_bytes},
                     {"prepare_seconds", rung.prepare_seconds},
                     {"start_seconds", rung.start_seconds},
                     {"ms_per_batch", 1000 * rung.batch_seconds},
                     {"cold_ms_per_batch", 1000 * rung.cold_seconds},
                     {"epoch_seconds", rung.epoch_seconds},
                     {"total_seconds", rung.total_seconds},
                     {"pays_back_epochs", rung.pays_back ? Json(*rung.pays_back) : Json()},
                     {"lost", rung.lost},
                     {"folder", rung.folder.string()},
                     {"fits", rung.fits()},
                     {"lacks", rung.lacks}});
  return {{"epochs", plan.settings.epochs},
          {"batch", plan.settings.batch},
          {"ranks", plan.settings.ranks},
          {"rungs", rungs},
          {"pick", plan.pick ? Json(name(*plan.pick)) : Json()},
          {"reason", plan.reason},
          {"notes", plan.notes}};
}

}  // namespace lacuna
