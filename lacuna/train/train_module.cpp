// torch.ops.lacuna.train_module: the trainer around a model that somebody else computes, which is
// how a Python module is trained (python/lacuna/_train.py).
//
// Its parameters come as tensors and stay the module's own: the optimiser changes them in place.
// So do its buffers (running statistics), which the module changes: checkpoints hold both.
// Predictions come from the operator lacuna::module_forward, which the caller has implemented.
// Several ranks each have the module, and train it together (ranks/process_group.h).
// Tensors cross as torch's own, so that autograd goes on through them; this library needs no
// Python.h.
//
//   module_forward(removed [ptr[B]] i32, ptr [B + 1] i32, training) -> [B, L], standardised
//   module_said(words): notes, and a line an epoch
//   module_progress(task, done, total, unit): inside an epoch, and in other long work
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/ranges.h>
#include <torch/library.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "lacuna/core/error.h"
#include "lacuna/core/random.h"
#include "lacuna/nn/model.h"
#include "lacuna/torch/find_operator.h"
#include "lacuna/train/ranks/process_group.h"
#include "lacuna/train/trainer.h"

namespace lacuna {
namespace {

constexpr const char* kModuleDefaults = R"(
name: module          # one of the caller's own: lacuna.train() of Python
module: ""            # its class
)";

// What the model of a training is made from; one at a time.
std::mutex module_in_use;
using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;
NamedTensors module_parameters, module_buffers;
uint32_t module_rank = 0;

NamedTensors named(const std::vector<std::string>& names, const std::vector<at::Tensor>& tensors) {
  LACUNA_ASSERT(names.size() == tensors.size());
  NamedTensors all;
  for (size_t i = 0; i < names.size(); ++i) all.emplace_back(names[i], tensors[i]);
  return all;
}

class CallersModel : public Model {
 public:
  CallersModel(YAML::Node, const GeneGraph&, int64_t label_count) : label_count_(label_count) {
    for (const auto& [name, parameter] : module_parameters) hold(*this, name, parameter, true);
    for (const auto& [name, buffer] : module_buffers) hold(*this, name, buffer, false);
  }

  at::Tensor forward(const ModelInput& input) override {
    static const auto call = find_operator<at::Tensor(const at::Tensor&, const at::Tensor&, bool)>(
        "lacuna::module_forward");
    if (is_training() && module_rank > 0) draw_anew();
    // Buffers of a batch hold more than it needs.
    const auto removed = input.removed.narrow(0, 0, input.ptr[-1].item<int64_t>());
    at::Tensor out;
    try {
      out = call.call(removed, input.ptr, is_training());
    } catch (...) {
      throw_if_stop_was_meant();
      throw;
    }
    const int64_t batch = input.batch();
    if (out.numel() != batch * label_count_ || out.size(0) != batch)
      throw Error("the module gives {} for {} samples and {} labels; [{}, {}] is needed",
                  fmt::format("[{}]", fmt::join(out.sizes(), ", ")), batch, label_count_, batch,
                  label_count_);
    return out.reshape({batch, label_count_});
  }
  bool is_static() const override { return false; }  // nobody knows
  bool reads_masks() const override { return false; }
  std::map<std::string, at::Tensor> embeddings(const ModelInput&) override {
    throw Error("a module of Python has no embeddings that lacuna knows");
  }

 private:
  // The trainer has set the same seed on all ranks. Our layers drop from it what one process would,
  // but a module's dropout would drop the same of every rank's samples.
  static void draw_anew() {
    const uint64_t seed = at::detail::getDefaultCPUGenerator().current_seed();
    at::manual_seed(mix64(seed + module_rank));
  }

  // Under its own name: dots are modules within modules.
  static void hold(torch::nn::Module& in, const std::string& name, const at::Tensor& tensor,
                   bool is_parameter) {
    const size_t dot = name.find('.');
    if (dot == std::string::npos) {
      if (is_parameter)
        in.register_parameter(name, tensor, tensor.requires_grad());
      else
        in.register_buffer(name, tensor);
      return;
    }
    const std::string first = name.substr(0, dot);
    const auto children = in.named_children();
    const std::shared_ptr<torch::nn::Module> child =
        children.contains(first) ? children[first]
                                 : in.register_module(first, std::make_shared<torch::nn::Module>());
    hold(*child, name.substr(dot + 1), tensor, is_parameter);
  }

  int64_t label_count_;
};

class ShownProgress : public Progress {
 public:
  void begin(std::string_view task, uint64_t total, std::string_view unit) override {
    task_ = task, total_ = total, unit_ = unit;
    advance(0);
  }
  void advance(uint64_t done) override {
    static const auto call =
        find_operator<void(c10::string_view, int64_t, int64_t, c10::string_view)>(
            "lacuna::module_progress");
    call.call(task_, int64_t(done), int64_t(total_), unit_);
  }
  void end() override { advance(total_); }

 private:
  std::string task_, unit_;
  uint64_t total_ = 0;
};

class SaidAloud : public TrainListener {
 public:
  void step(const TrainProgress& p) override {
    shown_.begin(fmt::format("epoch {}/{}", p.epoch + 1, p.epochs), p.samples, "samples");
    shown_.advance(p.sample);
  }
  Progress& progress() override { return shown_; }
  void note(const std::string& words) override { say(words); }
  void begin(const std::string& what) override { say(what); }
  void epoch(const TrainProgress& p, double train_loss, const ValidationScores& found) override {
    std::string line = fmt::format("epoch {}/{}  loss {:.4f}", p.epoch + 1, p.epochs, train_loss);
    for (size_t i = 0; i < found.values.size(); ++i)
      line += fmt::format("  validation {} {:.4f}", p.scores.at(i).title, found.values[i]);
    say(line);
  }

 private:
  static void say(const std::string& words) {
    static const auto call = find_operator<void(c10::string_view)>("lacuna::module_said");
    call.call(words);
  }

  ShownProgress shown_;
};

// "finished", "stopped", or "error: WORDS".
std::string train_module(const std::string& file, const std::vector<std::string>& settings,
                         const std::string& out, bool resume, const NamedTensors& parameters,
                         const NamedTensors& buffers, const ProcessGroupPlace& place) {
  const std::unique_lock lock(module_in_use, std::try_to_lock);
  if (!lock) return "error: another module is being trained in this process; wait for its end";
  static const bool known [[maybe_unused]] = add_model<CallersModel>("module", kModuleDefaults);
  module_parameters = parameters;
  module_buffers = buffers;
  module_rank = place.rank;
  const auto forget = [] {
    module_parameters.clear();
    module_buffers.clear();
  };
  try {
    const Config config = read_config(file, settings);
    const TrainRequest request = {
        .out = out, .resume = resume, .command = "lacuna.train", .version = LACUNA_VERSION};
    SaidAloud listener;
    const auto ranks = place.world > 1 ? join_process_group(place) : nullptr;
    const RunEnd end = train(config, request, listener, ranks ? *ranks : Group::alone());
    forget();
    return end == RunEnd::finished ? "finished" : "stopped";
  } catch (const Error& error) {
    forget();
    return fmt::format("error: {}", error.what());
  }
}

TORCH_LIBRARY_FRAGMENT(lacuna, m) {
  m.def("module_forward(Tensor removed, Tensor ptr, bool training) -> Tensor");
  m.def("module_said(str words) -> ()");
  m.def("module_progress(str task, int done, int total, str unit) -> ()");
  m.def("version() -> str", [] { return std::string(LACUNA_VERSION); });
  m.def(
      "train_module(str config, str[] settings, str out, bool resume, str[] names, "
      "Tensor[] parameters, str[] buffer_names, Tensor[] buffers, str group, int rank, int world, "
      "int local_rank) -> str",
      [](std::string config, std::vector<std::string> settings, std::string out, bool resume,
         std::vector<std::string> names, std::vector<at::Tensor> parameters,
         std::vector<std::string> buffer_names, std::vector<at::Tensor> buffers, std::string group,
         int64_t rank, int64_t world, int64_t local_rank) {
        return train_module(config, settings, out, resume, named(names, parameters),
                            named(buffer_names, buffers),
                            {group, uint32_t(rank), uint32_t(world), uint32_t(local_rank)});
      });
}

}  // namespace
}  // namespace lacuna
