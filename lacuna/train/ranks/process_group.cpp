#include "lacuna/train/ranks/process_group.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/stack.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "lacuna/core/error.h"
#include "lacuna/core/scope.h"

namespace lacuna {
namespace {

c10::OperatorHandle find_collective(const char* name) {
  const auto found =
      c10::Dispatcher::singleton().findSchema({std::string("_c10d_functional::") + name, ""});
  if (!found)
    throw Error("torch has no operator _c10d_functional::{}; start ranks with `python -m lacuna`",
                name);
  return *found;
}

// Tensors of one type and device laid end to end, so that one message carries them, and put back.
struct Flat {
  at::ScalarType dtype;
  at::Device device;
  std::vector<at::Tensor> tensors = {};
  at::Tensor flat = {};

  void lay() {
    std::vector<at::Tensor> rows;
    for (const at::Tensor& tensor : tensors) rows.push_back(tensor.detach().reshape({-1}));
    flat = at::cat(rows);
  }
  void put_back() const {
    int64_t place = 0;
    for (const at::Tensor& tensor : tensors) {
      tensor.detach().copy_(flat.narrow(0, place, tensor.numel()).view(tensor.sizes()));
      place += tensor.numel();
    }
  }
};

// In the order in which the kinds come: the same on every rank.
std::vector<Flat> by_kind(at::TensorList tensors) {
  std::vector<Flat> kinds;
  for (const at::Tensor& tensor : tensors) {
    const auto kind = std::ranges::find_if(kinds, [&](const Flat& flat) {
      return flat.dtype == tensor.scalar_type() && flat.device == tensor.device();
    });
    if (kind == kinds.end())
      kinds.push_back({tensor.scalar_type(), tensor.device(), {tensor}});
    else
      kind->tensors.push_back(tensor);
  }
  for (Flat& kind : kinds) kind.lay();
  return kinds;
}

class ProcessGroup : public Group {
 public:
  explicit ProcessGroup(const ProcessGroupPlace& place)
      : place_(place),
        all_reduce_(find_collective("all_reduce_")),
        broadcast_(find_collective("broadcast_")),
        wait_(find_collective("wait_tensor")) {}

  uint32_t rank() const override { return place_.rank; }
  uint32_t world() const override { return place_.world; }
  uint32_t local_rank() const override { return place_.local_rank; }
  bool is_alone() const override { return false; }
  bool can_be_recorded() const override { return place_.is_nccl; }

  void sum(at::TensorList tensors) override {
    exchange(tensors, [&](const at::Tensor& flat) {
      call(all_reduce_, {flat, "sum", place_.name});
    });
  }
  void start_sum(const at::Tensor& tensor) override {
    guarded([&] { call(all_reduce_, {tensor, "sum", place_.name}); });
  }
  void finish_sum(const at::Tensor& tensor) override {
    guarded([&] { call(wait_, {tensor}); });
  }
  void broadcast(at::TensorList tensors) override {
    exchange(tensors, [&](const at::Tensor& flat) {
      call(broadcast_, {flat, int64_t(0), place_.name});
    });
  }
  void barrier() override { any(false); }

 private:
  // Boxed: the type of a group's name in the schema differs between versions of torch.
  static void call(const c10::OperatorHandle& op, std::vector<c10::IValue> stack) {
    op.callBoxed(stack);
  }

  // All are under way before the first is waited for.
  template <class Start>
  void exchange(at::TensorList tensors, const Start& start) {
    const at::NoGradGuard guard;
    const std::vector<Flat> kinds = by_kind(tensors);
    guarded([&] {
      for (const Flat& kind : kinds) start(kind.flat);
      for (const Flat& kind : kinds) call(wait_, {kind.flat});
    });
    for (const Flat& kind : kinds) kind.put_back();
  }

  // What fails here is the connection to another rank.
  template <class Calls>
  void guarded(const Calls& calls) const {
    const Scope scope("communication");
    throw_if_rank_lost();
    try {
      calls();
    } catch (const std::exception& error) {
      // Who watches the ranks (python/lacuna/_ranks.py) is about to say which one it was.
      for (int i = 0; i < 20; ++i) {
        throw_if_rank_lost();
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }
      lose_rank(lost_words(error));
      throw_if_rank_lost();
    }
  }

  // The first line of what torch says.
  std::string lost_words(const std::exception& error) const {
    const std::string words = error.what();
    return fmt::format("rank {} has lost another rank: {}", place_.rank,
                       words.substr(0, words.find('\n')));
  }

  ProcessGroupPlace place_;
  c10::OperatorHandle all_reduce_, broadcast_, wait_;
};

}  // namespace

std::unique_ptr<Group> join_process_group(const ProcessGroupPlace& place) {
  return std::make_unique<ProcessGroup>(place);
}

}  // namespace lacuna
