#include "lacuna/measure/profile.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>

#include "lacuna/core/error.h"
#include "lacuna/core/median.h"
#include "lacuna/core/scope.h"
#include "lacuna/core/system/clock.h"
#include "lacuna/core/system/threads.h"
#include "lacuna/measure/peak_memory.h"
#include "lacuna/plan/machine.h"
#include "lacuna/run/scope_timeline.h"
#include "lacuna/train/loop.h"
#include "lacuna/train/ranks/gradient_sum.h"

namespace lacuna {
namespace {

constexpr int kSumsAlone = 20;
constexpr uint64_t kWarmSteps = 5;  // more than the stepper's own before it records
// In the order of a step; idle comes last and takes what no scope owns.
constexpr const char* kCategories[] = {"load",     "copy",      "masks",         "aggregation",
                                       "mlp",      "merge",     "heads",         "other",
                                       "backward", "optimiser", "communication", "logging"};

// `forward`, and what a model names itself, are `other`.
const char* category_of(const char* scope) {
  if (!scope) return "idle";
  for (const char* category : kCategories)
    if (std::string_view(scope) == category) return category;
  return "other";
}

// ---- the device's clock
// Marks on the stream that the model runs on, read when all is done.
class DeviceMarks {
 public:
  explicit DeviceMarks(at::Device device) : device_(device) {}

  void add() {
    events_.emplace_back(device_.type(), c10::EventFlag::BACKEND_DEFAULT);
    events_.back().record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  }
  void clear() { events_.clear(); }
  // Milliseconds since the first mark. Waits for the last.
  std::vector<double> times() const {
    std::vector<double> result;
    events_.back().synchronize();
    for (const c10::Event& event : events_) result.push_back(events_.front().elapsedTime(event));
    return result;
  }

 private:
  at::Device device_;
  std::deque<c10::Event> events_;
};

// Work for the device that takes longer than the host takes to send a step.
class Filler {
 public:
  Filler(at::Device device, double host_ms) {
    matrix_ = at::zeros({4096, 4096}, at::TensorOptions(device).dtype(at::kFloat));
    out_ = at::empty_like(matrix_);
    at::mm_out(out_, matrix_, matrix_);
    DeviceMarks marks(device);
    marks.add();
    at::mm_out(out_, matrix_, matrix_);
    marks.add();
    count_ = 1 + int(2 * host_ms / std::max(marks.times()[1], 0.01));
  }
  void send() {
    for (int i = 0; i < count_; ++i) at::mm_out(out_, matrix_, matrix_);
  }

 private:
  at::Tensor matrix_, out_;
  int count_;
};

// ---- what is made of it
std::map<std::string, double> by_category(const std::map<std::string, double>& by_owner) {
  std::map<std::string, double> result;
  for (const auto& [owner, ms] : by_owner)
    result[category_of(owner.empty() ? nullptr : owner.c_str())] += ms;
  return result;
}

// idle: what is left of the wall time.
std::vector<ProfileCategory> categories(std::map<std::string, double> ms, uint64_t steps,
                                        double wall_ms) {
  std::vector<ProfileCategory> result;
  double left = wall_ms;
  for (const char* name : kCategories) {
    const double a_step = ms[name] / double(steps);
    result.push_back({name, a_step, a_step / wall_ms});
    left -= a_step;
  }
  result.push_back({"idle", std::max(left, 0.0), std::max(left, 0.0) / wall_ms});
  return result;
}

std::string largest_part(const StepProfile& profile) {
  const bool has_gpu = !profile.gpu.empty();
  const auto& side = has_gpu ? profile.gpu : profile.cpu;
  const auto largest = std::max_element(
      side.begin(), side.end(),
      [](const ProfileCategory& a, const ProfileCategory& b) { return a.ms < b.ms; });
  const char* place = has_gpu ? "On the GPU " : "";
  const std::string what =
      largest->name == "idle"
          ? std::string(has_gpu ? "waiting for the CPU" : "time outside of all parts")
          : largest->name;
  std::string sentence =
      fmt::format("{}{} takes the most: {:.2f} of {:.2f} ms a step ({:.0f}%).", place, what,
                  largest->ms, profile.wall_ms, 100 * largest->share);
  sentence[0] = char(std::toupper(sentence[0]));
  return sentence;
}

// One track of a Chrome trace: a block for each stretch of time that somebody owns.
void add_track(Json& events, int number, const char* name,
               std::span<const ScopeTimeline::Border> borders, std::span<const double> times) {
  events.push_back({{"name", "thread_name"},
                    {"ph", "M"},
                    {"pid", 1},
                    {"tid", number},
                    {"args", {{"name", name}}}});
  for (size_t i = 0; i + 1 < borders.size(); ++i) {
    if (!borders[i].owner) continue;
    events.push_back({{"name", category_of(borders[i].owner)},
                      {"cat", name},
                      {"ph", "X"},
                      {"pid", 1},
                      {"tid", number},
                      {"ts", times[i] * 1000},
                      {"dur", (times[i + 1] - times[i]) * 1000}});
  }
}

// The device's busy time by owner, in steps that find their work ready.
std::map<std::string, double> device_times(Loop& loop, at::Device device, uint64_t steps,
                                           double host_ms) {
  Filler filler(device, host_ms);
  std::map<std::string, double> total;
  for (uint64_t i = 0; i < steps; ++i) {
    DeviceMarks marks(device);
    ScopeTimeline timeline({}, [&] { marks.add(); });
    loop.wait();
    filler.send();
    timeline.start();
    loop.run(1);
    timeline.stop();
    for (const auto& [owner, ms] : time_by_owner(timeline.borders(), marks.times()))
      total[owner] += ms;
  }
  total.erase("");  // between the scopes nothing runs but the waiting
  return total;
}

// ---- the sums over ranks
void count_gradients(torch::nn::Module& model, StepProfile& profile) {
  for (const at::Tensor& parameter : model.parameters())
    if (parameter.requires_grad()) profile.gradient_bytes += parameter.nbytes();
  constexpr uint64_t kBucket = GradientSum::kBucketBytes;
  profile.gradient_buckets =
      std::max<uint64_t>(1, (profile.gradient_bytes + kBucket - 1) / kBucket);
}

// Of gradients of this size in so many buckets, while no rank does anything else: ms.
double sum_alone(const StepProfile& profile, at::Device device, Loop& loop, Group& group) {
  const auto floats = at::TensorOptions(device).dtype(at::kFloat);
  const int64_t numbers =
      int64_t(profile.gradient_bytes / sizeof(float) / profile.gradient_buckets);
  std::vector<at::Tensor> buckets;
  for (uint64_t i = 0; i < profile.gradient_buckets; ++i)
    buckets.push_back(at::zeros({numbers}, floats));
  std::vector<double> times;
  for (int i = 0; i < kSumsAlone; ++i) {
    loop.wait();
    group.barrier();  // else the first to come waits for the others
    const auto start = std::chrono::steady_clock::now();
    for (const at::Tensor& bucket : buckets) group.start_sum(bucket);
    for (const at::Tensor& bucket : buckets) group.finish_sum(bucket);
    loop.wait();
    times.push_back(seconds_since(start) * 1e3);
  }
  return median(times);
}

// Waited by the thread that trains, on the CPU; none where there is one rank.
std::vector<RankCommunication> communication_by_rank(const StepProfile& profile, at::Device device,
                                                     Loop& loop, Group& group) {
  if (group.is_alone()) return {};
  const at::Tensor all = at::zeros({group.world(), 2}, at::kDouble);
  for (const ProfileCategory& category : profile.cpu)
    if (category.name == "communication") all[group.rank()][0].fill_(category.ms);
  all[group.rank()][1].fill_(sum_alone(profile, device, loop, group));
  group.sum(all);
  std::vector<RankCommunication> ranks;
  for (int64_t r = 0; r < int64_t(group.world()); ++r)
    ranks.push_back({all[r][0].item<double>(), all[r][1].item<double>()});
  return ranks;
}

std::optional<double> recorded_time(Task& task, uint64_t steps) {
  Loop loop(task);
  loop.run(kWarmSteps);
  const double ms = loop.time(steps) / double(steps);
  return loop.stepper().is_recorded() ? std::optional(ms) : std::nullopt;
}

std::string describe_machine(at::Device device) {
  std::string from;
  const auto gpu = device.is_cuda() ? probe_gpu(from) : std::nullopt;
  return fmt::format("{} cores of {}, {} threads{}", available_threads(), cpu_name(),
                     at::get_num_threads(), gpu ? ", " + gpu->name : "");
}

}  // namespace

StepProfile profile_step(const Config& config, uint64_t steps,
                         const std::function<void(const std::string&)>& note, Group& group) {
  PeakMemory memory(choose_device(
      config.train.device, [](const std::string&) {}, group));
  const auto task = open_task({.config = config, .note = note, .group = group});
  make_paths_absolute(task->config());
  const at::Device device = task->model().parameters().at(0).device();
  StepProfile result;
  result.device = device.str();
  result.machine = describe_machine(device);
  result.date = utc_now();
  result.config = to_yaml(task->config());
  const Json description = task->description();
  for (const auto& [kind, data] : description.items())
    if (data.contains("fingerprint"))  // a plugin is no data
      result.data[kind] = {{"path", data.at("path")}, {"fingerprint", data.at("fingerprint")}};
  result.steps = steps;
  result.batch = uint64_t(task->config().train.batch);
  result.threads = uint64_t(at::get_num_threads());
  count_gradients(task->model(), result);

  Loop loop(*task, /*may_record=*/false);
  loop.run(kWarmSteps);
  loop.wait();
  DeviceMarks marks(device);
  ScopeTimeline timeline(
      {}, device.is_cpu() ? std::function<void()>() : [&] { marks.add(); });
  timeline.start();
  loop.run(steps);
  loop.wait();
  timeline.stop();

  result.ways.assign(timeline.ways().begin(), timeline.ways().end());
  const auto borders = timeline.borders();
  result.wall_ms = borders.back().ms / double(steps);
  const auto on_cpu = by_category(time_by_owner(borders));
  result.cpu = categories(on_cpu, steps, result.wall_ms);
  std::vector<double> times;
  for (const auto& border : borders) times.push_back(border.ms);
  Json events = Json::array();
  add_track(events, 1, "CPU", borders, times);
  if (!device.is_cpu()) {
    add_track(events, 2, "GPU", borders, marks.times());
    const double host_ms = result.wall_ms - result.cpu.back().ms;
    result.gpu =
        categories(by_category(device_times(loop, device, steps, host_ms)), steps, result.wall_ms);
    result.recorded_ms = recorded_time(*task, steps);
  }
  result.peak_bytes = memory.bytes();
  result.ranks = communication_by_rank(result, device, loop, group);
  result.trace = {{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}};
  result.largest = largest_part(result);
  return result;
}

}  // namespace lacuna
