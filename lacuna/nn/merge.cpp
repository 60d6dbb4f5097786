#include "lacuna/nn/merge.h"

#include <ATen/ATen.h>

#include "lacuna/core/error.h"
#include "lacuna/core/scope.h"
#include "lacuna/torch/fused_attention.h"
#include "lacuna/torch/fused_pairwise.h"
#include "lacuna/torch/recompute.h"

namespace lacuna {
namespace {

constexpr int64_t kAttentionHeads = 4;
// What a GPU does, for `lacuna profile`.
constexpr const char *kFusedMerge = "merge: one kernel each way",
                     *kMergeInPieces = "merge: in pieces, no kernel for this width and type";
constexpr int64_t kPairHidden = 32, kScoreHidden = 32;
// Rows a block: enough for a GPU to be busy; few enough for a CPU's caches.
constexpr int64_t kRowsOnGpu = 65536, kRowsOnCpu = 512;

class SumMerge : public Merge {
 public:
  at::Tensor forward(const at::Tensor& y, const at::Tensor&) override { return y.sum(0); }
  std::optional<double> share_of_sum() const override { return 1; }
};

class MeanMerge : public Merge {
 public:
  explicit MeanMerge(int64_t graphs) : graphs_(graphs) {}
  at::Tensor forward(const at::Tensor& y, const at::Tensor&) override { return y.mean(0); }
  std::optional<double> share_of_sum() const override { return 1.0 / double(graphs_); }

 private:
  int64_t graphs_;
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

  bool looks_at_used(const at::Tensor& y) const override { return can_fuse_attention(y); }

  at::Tensor forward(const at::Tensor& y, const at::Tensor& used) override {
    if (can_fuse_attention(y)) {
      tell_way(kFusedMerge);
      return fused_attention(y,
                             {position_, query_->weight, query_->bias, key_->weight, key_->bias,
                              value_->weight, value_->bias, out_->weight, out_->bias},
                             used);
    }
    if (y.is_cuda()) {
      tell_way(kMergeInPieces);
      return attend_to_all(y);
    }
    return recompute_rows([this](const at::Tensor& part) { return attend_to_all(part); }, y,
                          kRowsOnCpu);
  }

 private:
  at::Tensor attend_to_all(const at::Tensor& y) const {
    const auto tokens = y.transpose(0, 1) + position_.to(y.scalar_type());  // [rows, G, H]
    const auto seen = attend(query_->forward(tokens), key_->forward(tokens),
                             value_->forward(tokens), kAttentionHeads);
    return out_->forward(seen).mean(1);
  }

  at::Tensor position_;  // [G, H]
  std::shared_ptr<Dense> query_, key_, value_, out_;
};

class PairwiseMerge : public Merge {
 public:
  PairwiseMerge(int64_t graphs, int64_t width, NormKind norm, at::Device device, bool savings)
      : savings_(savings), norm_kind_(norm) {
    std::vector<int64_t> first, second;
    for (int64_t i = 0; i < graphs; ++i)
      for (int64_t j = i; j < graphs; ++j) {
        first.push_back(i);
        second.push_back(j);
      }
    const int64_t pairs = int64_t(first.size());
    first_ = at::tensor(first).to(device);
    second_ = at::tensor(second).to(device);
    is_first_ = at::one_hot(first_, graphs).reshape({pairs, graphs, 1, 1});
    is_second_ = at::one_hot(second_, graphs).reshape({pairs, graphs, 1, 1});
    hidden_ =
        register_module("hidden", std::make_shared<GraphDense>(pairs, 2 * width, kPairHidden));
    out_ = register_module("out", std::make_shared<GraphDense>(pairs, kPairHidden, width));
    score_hidden_ = register_module("score_hidden", std::make_shared<Dense>(width, kScoreHidden));
    score_ = register_module("score", std::make_shared<Dense>(kScoreHidden, 1, kScoreStd));
    norm_ = register_module("norm", std::make_shared<Norm>(norm, width));
  }

  bool looks_at_used(const at::Tensor& y) const override {
    return savings_ && can_fuse_pairwise(y);
  }

  at::Tensor forward(const at::Tensor& y, const at::Tensor& used) override {
    if (!savings_) return norm_->forward(weigh_plainly(y));
    if (can_fuse_pairwise(y)) {
      tell_way(kFusedMerge);
      const auto x = fused_pairwise(y, parameters_to_fuse(), used);
      return norm_kind_ == NormKind::layer ? x : norm_->forward(x);
    }
    const auto body = [this](const at::Tensor& part) { return weigh(part); };
    if (!y.is_cuda()) return norm_->forward(recompute_rows(body, y, kRowsOnCpu));
    tell_way(kMergeInPieces);
    std::vector<at::Tensor> blocks;
    for (const at::Tensor& rows : y.split(kRowsOnGpu, 1)) blocks.push_back(recompute(body, rows));
    return norm_->forward(at::cat(blocks));
  }

 private:
  // The kernel knows the layer norm and no other.
  PairwiseParameters parameters_to_fuse() const {
    const bool normed = norm_kind_ == NormKind::layer;
    return {hidden_->weight,
            hidden_->bias,
            out_->weight,
            out_->bias,
            score_hidden_->weight,
            score_hidden_->bias,
            score_->weight,
            score_->bias,
            normed ? norm_->weight : at::Tensor(),
            normed ? norm_->bias : at::Tensor()};
  }

  // [G, rows, H] -> [rows, H], every option formed
  at::Tensor weigh_plainly(const at::Tensor& y) const {
    const auto first = y.index_select(0, first_), second = y.index_select(0, second_);
    const auto hidden = at::gelu(hidden_->forward(at::cat({first, second}, -1)));
    const auto options = at::cat({out_->forward(hidden), y.mean(0, /*keepdim=*/true)});
    const auto scores = score(score_hidden_->forward(options));  // [P + 1, rows, 1]
    return (options * at::softmax(scores, 0)).sum(0);
  }

  // The same without the options of the pairs, o = h W + b: their scores need o V + c, which is
  // h (W V) + (b V + c); and their weighted sum is the sum of (share h) W + share b.
  at::Tensor weigh(const at::Tensor& y) const {
    const auto dtype = y.scalar_type();
    const bool is_bf16 = dtype == at::kBFloat16;
    const auto h = at::gelu(is_bf16 ? hidden_in_one_product(y) : hidden_by_halves(y));
    const auto folded = at::matmul(out_->weight, score_hidden_->weight);  // [P, 32, 32]
    const auto shift = at::matmul(out_->bias, score_hidden_->weight) + score_hidden_->bias;
    const auto mean = y.mean(0);  // [rows, H]
    const auto scores =
        at::cat({score(at::baddbmm(shift.to(dtype), h, folded.to(dtype))),
                 score(score_hidden_->forward(mean)).unsqueeze(0)});  // [P + 1, rows, 1]
    const auto shares = at::softmax(scores, 0);                       // [P + 1, rows, 1]
    const int64_t pairs = h.size(0), width = y.size(2);
    const auto of_pairs = shares.narrow(0, 0, pairs);
    const auto weighted = (h * of_pairs).transpose(0, 1).flatten(1);  // [rows, P * 32]
    const auto sum = at::mm(weighted, out_->weight.to(dtype).reshape({-1, width}));
    const auto shifted = at::addmm(sum, of_pairs.squeeze(-1).t(), out_->bias.to(dtype).squeeze(1));
    return at::addcmul(shifted, mean, shares[pairs]);
  }

  // hidden [.., 32] -> [.., 1]
  at::Tensor score(const at::Tensor& hidden) const { return score_->forward(at::gelu(hidden)); }

  // [y_i, y_j] times the pair's weights, in two halves. [P, rows, 32]
  at::Tensor hidden_by_halves(const at::Tensor& y) const {
    const auto first = y.index_select(0, first_), second = y.index_select(0, second_);
    const auto halves = hidden_->weight.to(y.scalar_type()).split(y.size(2), 1);  // [P, H, 32]
    const auto from_second = at::baddbmm(hidden_->bias.to(y.scalar_type()), second, halves[1]);
    return at::baddbmm(from_second, first, halves[0]);
  }

  // The same as all y side by side times one matrix, seven ninths of which are zeros: where bf16 is
  // multiplied by tensor cores, that takes less time than gathering y_i and y_j for every pair.
  at::Tensor hidden_in_one_product(const at::Tensor& y) const {
    const int64_t graphs = y.size(0), rows = y.size(1), width = y.size(2), pairs = first_.size(0);
    const auto halves = hidden_->weight.unsqueeze(1).split(width, 2);  // [P, 1, H, 32]
    const auto dtype = halves[0].scalar_type();
    const auto matrix = (is_first_.to(dtype) * halves[0] + is_second_.to(dtype) * halves[1])
                            .permute({1, 2, 0, 3})
                            .reshape({graphs * width, pairs * kPairHidden});
    const auto all = y.transpose(0, 1).reshape({rows, graphs * width});
    const auto bias = hidden_->bias.to(y.scalar_type()).flatten();
    return at::addmm(bias, all, matrix.to(y.scalar_type()))
        .unflatten(1, {pairs, kPairHidden})
        .transpose(0, 1);
  }

  bool savings_;
  NormKind norm_kind_;
  // No buffers: a change of dtype must not reach them.
  at::Tensor first_, second_;        // [P] the graphs of a pair
  at::Tensor is_first_, is_second_;  // [P, G, 1, 1] whether it is that graph
  std::shared_ptr<GraphDense> hidden_, out_;
  std::shared_ptr<Dense> score_hidden_, score_;
  std::shared_ptr<Norm> norm_;
};

}  // namespace

std::shared_ptr<Merge> make_merge(const std::string& kind, int64_t graphs, int64_t width,
                                  NormKind norm, at::Device device, bool savings) {
  if (kind == "sum") return std::make_shared<SumMerge>();
  if (kind == "mean") return std::make_shared<MeanMerge>(graphs);
  if (kind == "attention") return std::make_shared<AttentionMerge>(graphs, width);
  if (kind == "pairwise")
    return std::make_shared<PairwiseMerge>(graphs, width, norm, device, savings);
  throw Error("unknown merge '{}'; there are sum, mean, attention and pairwise", kind);
}

}  // namespace lacuna
