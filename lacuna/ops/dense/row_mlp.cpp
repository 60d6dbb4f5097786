#include "lacuna/ops/dense/row_mlp.h"

#include <algorithm>
#include <vector>

#include "lacuna/core/system/scratch.h"
#include "lacuna/core/system/threads.h"
#include "lacuna/ops/dense/row_kernels.h"

namespace lacuna {
namespace {

// A multiple of the rows that a product takes at a time. The ten arrays of the backward pass are
// 24 KB each in f32 at width 64 and stay in a second-level cache.
constexpr int64_t kBlockRows = 96;
// Into how many parts the rows are cut whose parameter gradients are summed apart.
constexpr int64_t kParts = 64;

struct RowBlock {
  int64_t graph, first, rows;
};
struct BlockPart {  // blocks of one graph
  size_t begin, end;
};

template <class Real>
std::vector<RowBlock> row_blocks(const RowMlpCall<Real>& call) {
  std::vector<RowBlock> blocks;
  for (int64_t g = 0; g < call.graphs; ++g) {
    const int64_t rows = call.used ? int64_t(call.used[g]) : call.rows;
    for (int64_t first = 0; first < rows; first += kBlockRows)
      blocks.push_back({g, first, std::min(kBlockRows, rows - first)});
  }
  return blocks;
}

std::vector<BlockPart> parts_of(const std::vector<RowBlock>& blocks) {
  const size_t most = (blocks.size() + kParts - 1) / kParts;
  std::vector<BlockPart> parts;
  for (size_t begin = 0, end; begin < blocks.size(); begin = end) {
    for (end = begin + 1; end < blocks.size() && end - begin < most; ++end)
      if (blocks[end].graph != blocks[begin].graph) break;
    parts.push_back({begin, end});
  }
  return parts;
}

// The parameters of every graph with padded rows, and the weights' transposes.
template <class Acc>
class PaddedParameters {
 public:
  PaddedParameters(const RowMlpParameters<const Acc>& from, int64_t graphs, int64_t width,
                   bool transposed)
      : pitch_(padded<Acc>(width)),
        matrix_(width * pitch_),
        graph_((transposed ? 2 : 1) * int64_t(kRowLinears) * matrix_ +
               int64_t(kRowLinears + 2) * pitch_),
        all_(size_t(graphs * graph_)) {
    std::fill_n(all_.get(), graphs * graph_, Acc(0));
    for (int64_t g = 0; g < graphs; ++g) {
      for (size_t l = 0; l < kRowLinears; ++l) {
        const Acc* weight = from.weight[l] + g * width * width;
        for (int64_t k = 0; k < width; ++k)
          for (int64_t h = 0; h < width; ++h) {
            at(g, kRowLinears + 2, l)[k * pitch_ + h] = weight[k * width + h];
            if (transposed)
              at(g, kRowLinears + 2, kRowLinears + l)[h * pitch_ + k] = weight[k * width + h];
          }
        std::copy_n(from.bias[l] + g * width, width, at(g, l, 0));
      }
      std::copy_n(from.scale + g * width, width, at(g, kRowLinears, 0));
      std::copy_n(from.shift + g * width, width, at(g, kRowLinears + 1, 0));
    }
  }
  const Acc* weight(int64_t g, size_t l) const { return at(g, kRowLinears + 2, l); }
  const Acc* transposed(int64_t g, size_t l) const {
    return at(g, kRowLinears + 2, kRowLinears + l);
  }
  const Acc* bias(int64_t g, size_t l) const { return at(g, l, 0); }
  const Acc* scale(int64_t g) const { return at(g, kRowLinears, 0); }
  const Acc* shift(int64_t g) const { return at(g, kRowLinears + 1, 0); }

 private:
  // The vectors of a graph stand first.
  Acc* at(int64_t g, size_t vectors, size_t matrices) const {
    return all_.get() + g * graph_ + int64_t(vectors) * pitch_ + int64_t(matrices) * matrix_;
  }
  int64_t pitch_, matrix_, graph_;
  Scratch<Acc> all_;
};

// One block on its way through the layer.
template <class Real>
class BlockWork {
  using Acc = Parameter<Real>;

 public:
  BlockWork(const RowMlpCall<Real>& call, const PaddedParameters<Acc>& parameters, bool backward)
      : call_(call),
        parameters_(parameters),
        pitch_(padded<Acc>(call.width)),
        size_(kBlockRows * pitch_),
        memory_(size_t((backward ? 11 : 2) * size_)),
        rstd_(size_t(kBlockRows)) {
    std::fill_n(memory_.get(), (backward ? 11 : 2) * size_, Acc(0));  // the padding
  }

  void forward(const RowBlock& block, Real* y) {
    load(call_.u, block, array(0));
    Acc *in = array(0), *out = array(1);
    for (size_t l = 0; l < kRowLinears; ++l) {
      if (l > 0) row_gelu<Acc>(block.rows * pitch_, in, in, nullptr);
      multiply(block, in, parameters_.weight(block.graph, l), parameters_.bias(block.graph, l),
               out);
      std::swap(in, out);
    }
    row_norm(block.rows, call_.width, pitch_, in, out, rstd_.data());
    shift(block, out, in);
    row_gelu<Acc>(block.rows * pitch_, in, in, nullptr);
    store(in, block, y);
  }

  // sums: the part's, laid out as gradients()
  void backward(const RowBlock& block, const Real* grad_y, Real* grad_u, Acc* sums) {
    // Arrays 0 to 3: what goes into each Linear; 4 to 6: the slopes of the GELUs between.
    load(call_.u, block, array(0));
    Acc *normed = array(7), *grad = array(8), *other = array(9), *slope = array(10);
    const int64_t count = block.rows * pitch_;
    for (size_t l = 0; l < kRowLinears; ++l) {
      multiply(block, array(l), parameters_.weight(block.graph, l),
               parameters_.bias(block.graph, l), other);
      if (l + 1 < kRowLinears) row_gelu(count, other, array(l + 1), array(kRowLinears + l));
    }
    row_norm(block.rows, call_.width, pitch_, other, normed, rstd_.data());
    shift(block, normed, other);
    row_gelu(count, other, other, slope);
    std::fill_n(grad, count, Acc(0));
    load(grad_y, block, grad);
    norm_backward(block, slope, normed, grad, sums);
    for (size_t l = kRowLinears; l-- > 0;) {
      row_outer<Acc>({block.rows, call_.width, pitch_, pitch_, array(l), grad, matrix(sums, l)});
      add_rows(block, grad, vector(sums, l));
      multiply(block, grad, parameters_.transposed(block.graph, l), nullptr, other);
      std::swap(grad, other);
      if (l > 0) scale_by(count, array(kRowLinears + l - 1), grad);
    }
    store(grad, block, grad_u);
  }

  // Of one part: four matrices [H, P], then six vectors [P]: biases, scale, shift.
  static int64_t sums_size(int64_t width) {
    return (int64_t(kRowLinears) * width + int64_t(kRowLinears) + 2) * padded<Acc>(width);
  }
  Acc* matrix(Acc* sums, size_t l) const { return sums + int64_t(l) * call_.width * pitch_; }
  Acc* vector(Acc* sums, size_t i) const { return matrix(sums, kRowLinears) + int64_t(i) * pitch_; }

 private:
  Acc* array(size_t i) const { return memory_.get() + int64_t(i) * size_; }

  void load(const Real* from, const RowBlock& block, Acc* to) const {
    from += (block.graph * call_.rows + block.first) * call_.width;
    for (int64_t r = 0; r < block.rows; ++r)
      for (int64_t h = 0; h < call_.width; ++h) to[r * pitch_ + h] = Acc(from[r * call_.width + h]);
  }
  void store(const Acc* from, const RowBlock& block, Real* to) const {
    to += (block.graph * call_.rows + block.first) * call_.width;
    for (int64_t r = 0; r < block.rows; ++r)
      for (int64_t h = 0; h < call_.width; ++h)
        to[r * call_.width + h] = Real(from[r * pitch_ + h]);
  }
  void multiply(const RowBlock& block, const Acc* in, const Acc* weight, const Acc* bias,
                Acc* out) const {
    row_product<Acc>({block.rows, call_.width, pitch_, pitch_, in, weight, bias, out});
  }
  void shift(const RowBlock& block, const Acc* normed, Acc* out) const {
    const Acc *scale = parameters_.scale(block.graph), *shift = parameters_.shift(block.graph);
    for (int64_t r = 0; r < block.rows; ++r)
      for (int64_t h = 0; h < pitch_; ++h)
        out[r * pitch_ + h] = normed[r * pitch_ + h] * scale[h] + shift[h];
  }
  void add_rows(const RowBlock& block, const Acc* rows, Acc* sum) const {
    for (int64_t r = 0; r < block.rows; ++r)
      for (int64_t h = 0; h < pitch_; ++h) sum[h] += rows[r * pitch_ + h];
  }
  static void scale_by(int64_t count, const Acc* factor, Acc* x) {
    for (int64_t i = 0; i < count; ++i) x[i] *= factor[i];
  }
  // grad: of y; becomes that of what the norm reads
  void norm_backward(const RowBlock& block, const Acc* slope, const Acc* normed, Acc* grad,
                     Acc* sums) {
    const Acc* scale = parameters_.scale(block.graph);
    Acc *of_scale = vector(sums, kRowLinears), *of_shift = vector(sums, kRowLinears + 1);
    for (int64_t r = 0; r < block.rows; ++r)
      for (int64_t h = 0; h < pitch_; ++h) {
        const int64_t i = r * pitch_ + h;
        const Acc own = grad[i] * slope[i];
        of_scale[h] += own * normed[i];
        of_shift[h] += own;
        grad[i] = own * scale[h];
      }
    row_norm_backward(block.rows, call_.width, pitch_, normed, rstd_.data(), grad);
  }

  const RowMlpCall<Real>& call_;
  const PaddedParameters<Acc>& parameters_;
  int64_t pitch_, size_;
  Scratch<Acc> memory_;    // arrays of [kBlockRows, P]
  std::vector<Acc> rstd_;  // [kBlockRows]
};

}  // namespace

template <class Real>
void row_mlp(const RowMlpCall<Real>& call, Real* y) {
  const PaddedParameters<Parameter<Real>> parameters(call.parameters, call.graphs, call.width,
                                                     /*transposed=*/false);
  const auto blocks = row_blocks(call);
  const auto parts = parts_of(blocks);
  parallel_for(parts.size(), call.threads, [&](uint64_t i) {
    BlockWork<Real> work(call, parameters, /*backward=*/false);
    for (size_t b = parts[i].begin; b < parts[i].end; ++b) work.forward(blocks[b], y);
  });
}

template <class Real>
void row_mlp_backward(const RowMlpCall<Real>& call, const Real* grad_y, Real* grad_u,
                      const RowMlpParameters<Parameter<Real>>& gradients) {
  using Acc = Parameter<Real>;
  const PaddedParameters<Acc> parameters(call.parameters, call.graphs, call.width,
                                         /*transposed=*/true);
  const auto blocks = row_blocks(call);
  const auto parts = parts_of(blocks);
  const int64_t size = BlockWork<Real>::sums_size(call.width), width = call.width;
  const Scratch<Acc> sums(parts.size() * size_t(size) + 1);  // [parts]
  parallel_for(parts.size(), call.threads, [&](uint64_t i) {
    BlockWork<Real> work(call, parameters, /*backward=*/true);
    Acc* of_part = sums.get() + int64_t(i) * size;
    std::fill_n(of_part, size, Acc(0));
    for (size_t b = parts[i].begin; b < parts[i].end; ++b)
      work.backward(blocks[b], grad_y, grad_u, of_part);
  });
  for (size_t l = 0; l < kRowLinears; ++l) {
    std::fill_n(gradients.weight[l], call.graphs * width * width, Acc(0));
    std::fill_n(gradients.bias[l], call.graphs * width, Acc(0));
  }
  std::fill_n(gradients.scale, call.graphs * width, Acc(0));
  std::fill_n(gradients.shift, call.graphs * width, Acc(0));
  const BlockWork<Real> layout(call, parameters, /*backward=*/false);
  for (size_t i = 0; i < parts.size(); ++i) {
    Acc* from = sums.get() + int64_t(i) * size;
    const int64_t g = blocks[parts[i].begin].graph, pitch = padded<Acc>(width);
    const auto add = [&](const Acc* values, Acc* to) {
      for (int64_t h = 0; h < width; ++h) to[h] += values[h];
    };
    for (size_t l = 0; l < kRowLinears; ++l) {
      for (int64_t k = 0; k < width; ++k)
        add(layout.matrix(from, l) + k * pitch, gradients.weight[l] + (g * width + k) * width);
      add(layout.vector(from, l), gradients.bias[l] + g * width);
    }
    add(layout.vector(from, kRowLinears), gradients.scale + g * width);
    add(layout.vector(from, kRowLinears + 1), gradients.shift + g * width);
  }
}

#define LACUNA_INSTANTIATE(Real)                                                    \
  template void row_mlp<Real>(const RowMlpCall<Real>&, Real*);                      \
  template void row_mlp_backward<Real>(const RowMlpCall<Real>&, const Real*, Real*, \
                                       const RowMlpParameters<Parameter<Real>>&);
LACUNA_INSTANTIATE(float)
LACUNA_INSTANTIATE(BFloat16)
LACUNA_INSTANTIATE(double)
#undef LACUNA_INSTANTIATE

}  // namespace lacuna
