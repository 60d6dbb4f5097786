#include "lacuna/nn/merge.h"

#include <ATen/ATen.h>

#include "lacuna/core/error.h"
#include "lacuna/nn/recompute.h"

namespace lacuna {
namespace {

constexpr int64_t kAttentionHeads = 4;
constexpr int64_t kPairHidden = 32, kScoreHidden = 32;
// Rows a block of pairwise: enough for a GPU to be busy; few enough for a CPU's caches.
constexpr int64_t kRowsOnGpu = 32768, kRowsOnCpu = 512;

class SumMerge : public Merge {
 public:
  at::Tensor forward(const at::Tensor& y) override { return y.sum(0); }
};

class MeanMerge : public Merge {
 public:
  at::Tensor forward(const at::Tensor& y) override { return y.mean(0); }
};

class AttentionMerge : public Merge {
 public:
  AttentionMerge(int64_t graphs, int64_t width) {
    if (width % kAttentionHeads != 0)
      throw Error("merge attention needs a width that is a multiple of {}, not {}", kAttentionHeads,
                  width);
    position_ = register_parameter("position", at::randn({graphs, width}) * 0.02);
    query_ = register_module("query", std::make_shared<Dense>(width, width));
    key_ = register_module("key", std::make_shared<Dense>(width, width));
    value_ = register_module("value", std::make_shared<Dense>(width, width));
    out_ = register_module("out", std::make_shared<Dense>(width, width));
  }

  at::Tensor forward(const at::Tensor& y) override {
    const auto tokens = y.transpose(0, 1) + position_.to(y.scalar_type());  // [rows, G, H]
    const auto seen = attend(query_->forward(tokens), key_->forward(tokens),
                             value_->forward(tokens), kAttentionHeads);
    return out_->forward(seen).mean(1);
  }

 private:
  at::Tensor position_;  // [G, H]
  std::shared_ptr<Dense> query_, key_, value_, out_;
};

class PairwiseMerge : public Merge {
 public:
  PairwiseMerge(int64_t graphs, int64_t width, NormKind norm, at::Device device, bool savings)
      : savings_(savings) {
    std::vector<int64_t> first, second;
    for (int64_t i = 0; i < graphs; ++i)
      for (int64_t j = i; j < graphs; ++j) {
        first.push_back(i);
        second.push_back(j);
      }
    const int64_t pairs = int64_t(first.size());
    first_ = at::tensor(first).to(device);
    second_ = at::tensor(second).to(device);
    hidden_ =
        register_module("hidden", std::make_shared<GraphDense>(pairs, 2 * width, kPairHidden));
    out_ = register_module("out", std::make_shared<GraphDense>(pairs, kPairHidden, width));
    score_hidden_ = register_module("score_hidden", std::make_shared<Dense>(width, kScoreHidden));
    score_ = register_module("score", std::make_shared<Dense>(kScoreHidden, 1, kScoreStd));
    norm_ = register_module("norm", std::make_shared<Norm>(norm, width));
  }

  at::Tensor forward(const at::Tensor& y) override {
    if (!savings_) return norm_->forward(weigh(y));
    const int64_t block = y.is_cuda() ? kRowsOnGpu : kRowsOnCpu;
    std::vector<at::Tensor> blocks;
    for (const at::Tensor& rows : y.split(block, 1))
      blocks.push_back(recompute([this](const at::Tensor& part) { return weigh(part); }, rows));
    return norm_->forward(at::cat(blocks));
  }

 private:
  // [G, rows, H] -> [rows, H]
  at::Tensor weigh(const at::Tensor& y) const {
    const auto pairs = out_->forward(at::gelu(hidden(y)));               // [P, rows, H]
    const auto options = at::cat({pairs, y.mean(0, /*keepdim=*/true)});  // [P + 1, rows, H]
    const auto scores = score_->forward(at::gelu(score_hidden_->forward(options)));
    return (options * at::softmax(scores, 0)).sum(0);
  }

  // [P, rows, 32]
  at::Tensor hidden(const at::Tensor& y) const {
    const auto first = y.index_select(0, first_), second = y.index_select(0, second_);
    if (!savings_) return hidden_->forward(at::cat({first, second}, -1));
    const auto halves = hidden_->weight.to(y.scalar_type()).split(y.size(2), 1);  // [P, H, 32]
    const auto from_second = at::baddbmm(hidden_->bias.to(y.scalar_type()), second, halves[1]);
    return at::baddbmm(from_second, first, halves[0]);
  }

  bool savings_;
  at::Tensor first_, second_;  // [P], no buffers: a change of dtype must not reach them
  std::shared_ptr<GraphDense> hidden_, out_;
  std::shared_ptr<Dense> score_hidden_, score_;
  std::shared_ptr<Norm> norm_;
};

}  // namespace

std::shared_ptr<Merge> make_merge(const std::string& kind, int64_t graphs, int64_t width,
                                  NormKind norm, at::Device device, bool savings) {
  if (kind == "sum") return std::make_shared<SumMerge>();
  if (kind == "mean") return std::make_shared<MeanMerge>();
  if (kind == "attention") return std::make_shared<AttentionMerge>(graphs, width);
  if (kind == "pairwise")
    return std::make_shared<PairwiseMerge>(graphs, width, norm, device, savings);
  throw Error("unknown merge '{}'; there are sum, mean, attention and pairwise", kind);
}

}  // namespace lacuna
