#include "lacuna/nn/heads.h"

#include <ATen/ATen.h>

#include <cmath>

#include "lacuna/core/error.h"
#include "lacuna/torch/fused_pool.h"
#include "lacuna/torch/row_mlp.h"

namespace lacuna {
namespace {

// Scores [B, L] of sets, those of each size together: score(samples, k) gives those of samples
// whose sets have k genes (1 of empty ones, too).
at::Tensor score_by_size(
    const at::Tensor& sets,
    const std::function<at::Tensor(const at::Tensor& samples, int64_t k)>& score) {
  const auto sizes = sets.ge(0).sum(1).clamp_min(1);  // [B]
  at::Tensor scores;
  for (int64_t k = 1; k <= sets.size(1); ++k) {
    const auto samples = sizes.eq(k).nonzero().squeeze(1);
    if (samples.numel() == 0) continue;
    const auto own = score(samples, k);
    if (!scores.defined()) scores = at::empty({sets.size(0), own.size(1)}, own.options());
    scores.index_copy_(0, samples, own);
  }
  return scores.defined() ? scores : score(at::arange(0, sets.options()), sets.size(1));
}

}  // namespace

Pool::Pool(int64_t width) {
  gate_hidden_ = register_module("gate_hidden", std::make_shared<Dense>(width, width / 2));
  gate_ = register_module("gate", std::make_shared<Dense>(width / 2, 1, kScoreStd));
  value_ = register_module("value", std::make_shared<Dense>(width, width));
}

at::Tensor Pool::forward(const at::Tensor& x, const at::Tensor& keep) {
  const PoolParameters parameters = {gate_hidden_->weight, gate_hidden_->bias, gate_->weight,
                                     gate_->bias,          value_->weight,     value_->bias};
  if (can_fuse_pool(x)) return fused_pool(x, keep, parameters);
  if (x.is_cpu() && !at::GradMode::is_enabled()) return row_pool(x, keep, parameters);
  const auto removed = keep.logical_not();  // [N, B]
  const auto wide = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const auto gate = gate_->forward(at::gelu(gate_hidden_->forward(x))).squeeze(-1).to(wide);
  const auto weights =
      at::softmax(gate.masked_fill(removed, -1e30), 0).masked_fill(removed, 0);  // [N, B]
  const auto values = at::gelu(value_->forward(x));                              // [N, B, H]
  // One product a sample instead of a weighted copy of the values: [B, 1, N] x [B, N, H]. Not in
  // bf16: what a few removed genes change in a sum over thousands would drown in its rounding.
  return at::bmm(weights.t().unsqueeze(1), values.to(wide).transpose(0, 1)).squeeze(1);
}

GlobalHead::GlobalHead(int64_t width, int64_t labels) {
  hidden_ = register_module("hidden", std::make_shared<Dense>(width, width));
  score_ = register_module("score", std::make_shared<Dense>(width, labels, kScoreStd));
}

at::Tensor GlobalHead::forward(const at::Tensor& difference) {
  return score_->forward(at::gelu(hidden_->forward(difference)));
}

LocalHead::Layer::Layer(int64_t width) {
  query = register_module("query", std::make_shared<Dense>(width, width));
  key = register_module("key", std::make_shared<Dense>(width, width));
  value = register_module("value", std::make_shared<Dense>(width, width));
  out = register_module("out", std::make_shared<Dense>(width, width));
  beta = register_parameter("beta", at::full({}, 0.01));
}

LocalHead::LocalHead(int64_t width, int64_t heads, int64_t labels) : heads_(heads) {
  if (width % heads != 0)
    throw Error("width {} is not a multiple of the local head's {} attention heads", width, heads);
  static_ = register_module("static", std::make_shared<Dense>(width, width));
  for (int i = 0; i < 2; ++i)
    layers_.push_back(register_module("layer" + std::to_string(i), std::make_shared<Layer>(width)));
  score_ = register_module("score", std::make_shared<Dense>(width, labels, kScoreStd));
}

at::Tensor LocalHead::forward(const at::Tensor& genes, const at::Tensor& sets) {
  if (!sets.is_cpu() || at::GradMode::is_enabled()) return score_sets(genes, sets);
  return score_by_size(sets, [&](const at::Tensor& samples, int64_t k) {
    return score_sets(genes, sets.index_select(0, samples).narrow(1, 0, k));
  });
}

at::Tensor LocalHead::score_sets(const at::Tensor& genes, const at::Tensor& sets) {
  const int64_t k = sets.size(1);
  const auto present = sets.ge(0);                                                     // [B, k]
  const auto rows = genes.index_select(0, sets.clamp_min(0).reshape(-1));              // [B * k, H]
  const auto fixed = at::gelu(static_->forward(rows)).reshape({sets.size(0), k, -1});  // [B, k, H]
  const auto itself = at::eye(k, sets.options().dtype(at::kBool));                     // [k, k]
  const auto blocked = itself.logical_or(present.logical_not().unsqueeze(1));          // [B, k, k]
  const auto has_company = blocked.logical_not().any(-1, true);                        // [B, k, 1]
  auto x = fixed;
  for (const auto& layer : layers_) {
    const auto seen = attend(layer->query->forward(x), layer->key->forward(x),
                             layer->value->forward(x), heads_, blocked);
    x = x + (layer->beta.to(x.scalar_type()) * layer->out->forward(seen))
                .masked_fill(has_company.logical_not(), 0);
  }
  const auto scores = score_->forward((x - fixed).square());            // [B, k, L]
  const auto weights = present.unsqueeze(-1).to(scores.scalar_type());  // [B, k, 1]
  return (scores * weights).sum(1) / weights.sum(1).clamp_min(1);
}

PairHead::PairHead(int64_t width, int64_t labels) {
  const auto dense = [&](const char* name, int64_t in, int64_t out, double std = 0) {
    return register_module(name, std::make_shared<Dense>(in, out, std));
  };
  offset_hidden_ = dense("offset_hidden", width, width);
  offset_ = dense("offset", width, labels, kScoreStd);
  pair_hidden_ = dense("pair_hidden", 3 * width, width, std::sqrt(1.0 / double(3 * width)));
  pair_ = dense("pair", width, labels, kScoreStd);
}

at::Tensor PairHead::forward(const at::Tensor& rows, const at::Tensor& sets,
                             const DropOut& drop_out) {
  if (!sets.is_cpu() || at::GradMode::is_enabled()) return score_sets(rows, sets, drop_out);
  return score_by_size(sets, [&](const at::Tensor& samples, int64_t k) {
    return score_sets(rows.index_select(0, samples).narrow(1, 0, k),
                      sets.index_select(0, samples).narrow(1, 0, k), drop_out);
  });
}

at::Tensor PairHead::score_sets(const at::Tensor& rows, const at::Tensor& sets,
                                const DropOut& drop_out) {
  const int64_t k = sets.size(1);
  const auto present = sets.ge(0).unsqueeze(-1);  // [B, k, 1]
  const auto alone = offset_->forward(at::gelu(offset_hidden_->forward(rows)));
  const auto offsets = alone.masked_fill(present.logical_not(), 0).sum(1);  // [B, L]
  if (k == 1) return offsets;
  const auto pairs = at::triu_indices(k, k, 1, sets.options());                       // [2, P]
  const auto a = rows.index_select(1, pairs[0]), b = rows.index_select(1, pairs[1]);  // [B, P, H]
  const auto both = present.index_select(1, pairs[0])
                        .logical_and(present.index_select(1, pairs[1]));  // [B, P, 1]
  const auto hidden = at::gelu(pair_hidden_->forward(at::cat({a + b, a * b, (a - b).abs()}, -1)));
  const auto scores = pair_->forward(drop_out(hidden)).masked_fill(both.logical_not(), 0);
  return offsets + scores.sum(1) / both.sum(1).clamp_min(1);
}

ProductHead::ProductHead(int64_t width, int64_t hidden, int64_t labels) : width_(width) {
  const auto sign = 1 - 2 * at::arange(width).remainder(2).to(at::kFloat);  // [H]
  products_ = register_parameter("products", sign.unsqueeze(1).repeat({1, labels}));
  bias_ = register_parameter("bias", at::zeros({labels}));
  if (hidden == 0) return;
  first_ = register_module("first", std::make_shared<Dense>(2 * width, hidden));
  second_ = register_module("second", std::make_shared<Dense>(hidden, labels, kScoreStd));
}

at::Tensor ProductHead::forward(const at::Tensor& rows, const at::Tensor& sets) {
  if (!sets.is_cpu() || at::GradMode::is_enabled()) return score_sets(rows, sets);
  return score_by_size(sets, [&](const at::Tensor& samples, int64_t k) {
    return score_sets(rows.index_select(0, samples).narrow(1, 0, k),
                      sets.index_select(0, samples).narrow(1, 0, k));
  });
}

at::Tensor ProductHead::score_sets(const at::Tensor& rows, const at::Tensor& sets) {
  const int64_t k = sets.size(1), labels = rows.size(2) - width_;
  const auto present = sets.ge(0).unsqueeze(-1);  // [B, k, 1]
  const auto own = rows.narrow(2, width_, labels).masked_fill(present.logical_not(), 0);
  const auto offsets = own.sum(1) + bias_;  // [B, L]
  if (k == 1) return offsets;
  const auto factors = rows.narrow(2, 0, width_);                // [B, k, H]
  const auto pairs = at::triu_indices(k, k, 1, sets.options());  // [2, P]
  const auto a = factors.index_select(1, pairs[0]), b = factors.index_select(1, pairs[1]);
  const auto both = present.index_select(1, pairs[0])
                        .logical_and(present.index_select(1, pairs[1]));  // [B, P, 1]
  const auto product = a * b;                                             // [B, P, H]
  auto scores = at::matmul(product, products_);                           // [B, P, L]
  if (first_)
    scores = scores + second_->forward(at::gelu(first_->forward(at::cat({a + b, product}, -1))));
  return offsets + scores.masked_fill(both.logical_not(), 0).sum(1) / both.sum(1).clamp_min(1);
}

at::Tensor rows_of_sets(const at::Tensor& genes, const at::Tensor& sets) {
  return genes.index_select(0, sets.clamp_min(0).reshape(-1))
      .reshape({sets.size(0), sets.size(1), genes.size(1)});
}

Local local_from_name(const std::string& name) {
  if (name == "attention") return Local::attention;
  if (name == "wild_type") return Local::wild_type;
  if (name == "neighbours") return Local::neighbours;
  throw Error("unknown local head '{}'; there are attention, wild_type and neighbours", name);
}

Output output_from_name(const std::string& name) {
  if (name == "average") return Output::average;
  if (name == "gate") return Output::gate;
  if (name == "global") return Output::global;
  if (name == "local") return Output::local;
  throw Error("unknown output '{}'; there are average, gate, global and local", name);
}

}  // namespace lacuna
