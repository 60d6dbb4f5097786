#include "lacuna/train/group.h"

#include <ATen/ATen.h>

#include <mutex>
#include <optional>

#include "lacuna/core/error.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/torch/find_operator.h"

namespace lacuna {
namespace {

class Alone : public Group {
 public:
  uint32_t rank() const override { return 0; }
  uint32_t world() const override { return 1; }
  void sum(at::TensorList) override {}
  void broadcast(at::TensorList) override {}
  void barrier() override {}
};

std::mutex lost_mutex;            // of the three below
std::string lost_words;           // empty: all ranks are there
bool has_stopped_before = false;  // a stop was asked for before a rank was lost
std::optional<Unstoppable> held;  // by HeldStop

}  // namespace

void lose_rank(const std::string& words) {
  const std::lock_guard lock(lost_mutex);
  held.reset();
  if (!lost_words.empty()) return;
  lost_words = words;
  has_stopped_before = is_stop_asked();
  ask_to_stop();
}

void throw_if_rank_lost() {
  const std::lock_guard lock(lost_mutex);
  if (lost_words.empty()) return;
  if (has_stopped_before) throw Stopped();
  throw RankLost(lost_words);
}

void throw_if_stop_was_meant() {
  throw_if_rank_lost();
  throw_if_stopped();
}

HeldStop::HeldStop() {
  const std::lock_guard lock(lost_mutex);
  if (lost_words.empty()) held.emplace();
}

HeldStop::~HeldStop() {
  const std::lock_guard lock(lost_mutex);
  held.reset();
}

Group& Group::alone() {
  static Alone one;
  return one;
}

int64_t Group::first_says(int64_t value) {
  const at::Tensor said = at::full({}, value, at::kLong);
  broadcast(said);
  return said.item<int64_t>();
}

bool Group::any(bool value) {
  const at::Tensor count = at::full({}, int64_t(value), at::kLong);
  sum(count);
  return count.item<int64_t>() > 0;
}

at::Device choose_device(const std::string& name, const Note& note, const Group& group) {
  if (name != "auto" && name != "cpu" && name != "cuda")
    throw Error("there is no device '{}'; there are: auto, cpu, cuda", name);
  const size_t gpus = at::getNumGPUs();
  if (name == "cuda" && gpus == 0)
    throw Error("train.device is cuda, but torch finds no GPU here; set it to cpu or auto");
  if (name == "cpu" || gpus == 0) return at::kCPU;
  if (!find_operator<bool()>("lacuna::has_cuda").call()) {
    if (name == "cuda")
      throw Error("train.device is cuda, but this build has no CUDA; build it where nvcc is found");
    note("there is a GPU, but this build of lacuna has no CUDA: training on the CPU");
    return at::kCPU;
  }
  if (group.local_rank() >= gpus && name != "cuda")
    throw Error(
        "rank {} of this host needs a GPU of its own, but there are {}; start fewer ranks, or let "
        "them share with train.device=cuda, which is slower",
        group.local_rank(), gpus);
  if (group.local_rank() >= gpus)
    note(fmt::format("rank {} shares a GPU with another rank: slower than one rank alone",
                     group.rank()));
  return at::Device(at::kCUDA, c10::DeviceIndex(group.local_rank() % gpus));
}

}  // namespace lacuna
