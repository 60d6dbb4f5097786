// The smaller rooms on a GPU, each against its own CPU side: masks, cast, aggregate_masked,
// aggregate_shared, bipartite.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "lacuna/core/error.h"
#include "lacuna/core/testing.h"
#include "lacuna/graph/generate_graph.h"
#include "lacuna/ops/aggregate/aggregate_cuda.h"
#include "lacuna/ops/bipartite/bipartite_cuda.h"
#include "lacuna/ops/cast/cast.h"
#include "lacuna/ops/cast/cast_cuda.h"
#include "lacuna/ops/cuda/cuda_test_support.h"
#include "lacuna/ops/masks/masks_cuda.h"

namespace lacuna {
namespace {

using namespace testing;

template <class T>
double distance(const std::vector<T>& got, const std::vector<T>& want) {
  EXPECT_EQ(got.size(), want.size());
  double apart = 0, size = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double d = to_double(got[i]) - to_double(want[i]);
    apart += d * d;
    size += to_double(want[i]) * to_double(want[i]);
  }
  return size == 0 ? std::sqrt(apart) : std::sqrt(apart / size);
}
template <class Real>
double tolerance() {
  return std::is_same_v<Real, double> ? 1e-12 : std::is_same_v<Real, float> ? 1e-6 : 4e-3;
}

// ---- masks

struct Masks {
  HeteroGraph graph;
  RemovalRules rules;
  MaskLayout layout;
  MaskTable table;
  DeviceArray<uint32_t> ptr, place;

  explicit Masks(GraphSize size, uint64_t seed)
      : graph(generate_graph(size, seed)),
        rules(graph),
        layout(rules, MaskForm::u8),
        table(rules, layout),
        ptr(table.ptr),
        place(table.place) {}
  CudaMaskTable device() const { return {ptr.data(), place.data(), table.gene_count()}; }
};

TEST(MasksCuda, SameBytesAsOnTheHost) {
  LACUNA_NEEDS_GPU();
  const uint64_t seed = test_seed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  for (const GraphSize size : {GraphSize::tiny, GraphSize::small}) {
    const Masks m(size, seed);
    for (const uint32_t most : {0u, 3u, m.table.gene_count()}) {
      const RandomRemoved removed = random_removed(seed, m.table.gene_count(), 9, most);
      std::vector<uint8_t> want(9 * m.layout.stride(), 0xee);
      write_masks(m.layout, m.table, removed.view(), want.data());
      const DeviceRemoved device_removed(removed);
      const DeviceArray<uint8_t> records(want.size());
      const DeviceArray<int32_t> error(std::vector<int32_t>{0});
      write_masks_cuda(m.layout, m.device(), device_removed.view(), records.data(), error.data(),
                       nullptr);
      EXPECT_EQ(records.host(), want);
      EXPECT_EQ(error.host()[0], 0);
    }
  }
}

TEST(MasksCuda, MoreSamplesThanAGridHasRows) {
  LACUNA_NEEDS_GPU();
  const Masks m(GraphSize::tiny, 1);
  const int64_t batch = 70'000;
  const RandomRemoved removed = random_removed(1, m.table.gene_count(), batch, 2);
  std::vector<uint8_t> want(size_t(batch) * m.layout.stride());
  write_masks(m.layout, m.table, removed.view(), want.data());
  const DeviceRemoved device_removed(removed);
  const DeviceArray<uint8_t> records(want.size());
  write_masks_cuda(m.layout, m.device(), device_removed.view(), records.data(), nullptr, nullptr);
  EXPECT_TRUE(records.host() == want);
}

TEST(MasksCuda, BadIndexIsSkippedAndReported) {
  LACUNA_NEEDS_GPU();
  const Masks m(GraphSize::tiny, 1);
  RandomRemoved removed;
  removed.add(std::vector<int32_t>{3});
  std::vector<uint8_t> want(m.layout.stride());
  write_masks(m.layout, m.table, removed.view(), want.data());
  RandomRemoved bad;
  bad.add(std::vector<int32_t>{3, 40, -7});
  const DeviceRemoved device_removed(bad);
  const DeviceArray<uint8_t> records(want.size());
  const DeviceArray<int32_t> error(std::vector<int32_t>{0});
  write_masks_cuda(m.layout, m.device(), device_removed.view(), records.data(), error.data(),
                   nullptr);
  EXPECT_EQ(records.host(), want);
  EXPECT_EQ(error.host()[0], kBadRemovedIndex);
}

// ---- cast

template <class Real>
void expect_same_cast(int64_t count, int64_t skip) {
  Random random(test_seed());
  std::vector<uint8_t> bytes(size_t(count + skip));
  for (uint8_t& byte : bytes) byte = uint8_t(random.below(256));
  std::vector<Real> want(static_cast<size_t>(count));
  cast<Real>(bytes.data() + skip, count, 0.0137f, -1.25f, want.data());
  const DeviceArray<uint8_t> x(bytes);
  const DeviceArray<Real> out{static_cast<size_t>(count)};
  cast_cuda<Real>(x.data() + skip, count, 0.0137f, -1.25f, out.data(), nullptr);
  EXPECT_EQ(std::memcmp(out.host().data(), want.data(), want.size() * sizeof(Real)), 0)
      << count << " elements from " << skip;
}

TEST(CastCuda, SameBitsAsOnTheHost) {
  LACUNA_NEEDS_GPU();
  for (const int64_t count : {1, 7, 256, 100001}) {
    for (const int64_t skip : {0, 3, 8}) {
      expect_same_cast<float>(count, skip);
      expect_same_cast<BFloat16>(count, skip);
    }
  }
}

// ---- aggregate_masked

template <class Real>
void expect_masked(Reduce reduce, bool sum_types, bool with_values) {
  using P = Parameter<Real>;
  const uint64_t seed = test_seed();
  SCOPED_TRACE("seed " + std::to_string(seed) + ", reduce " + std::string(name(reduce)));
  const int64_t batch = 5, width = 24;
  const Masks m(GraphSize::small, seed);
  const RandomGraph graph = gene_graph(m.graph);
  const DeviceGraph device(graph, 0);
  const RandomRemoved removed = random_removed(seed, graph.nodes, batch, 40);
  std::vector<uint8_t> records(size_t(batch) * m.layout.stride());
  write_masks(m.layout, m.table, removed.view(), records.data());
  std::vector<std::string> names;
  for (const EdgeType* edges : m.graph.gene_edges()) names.push_back(edges->key());
  const std::vector<uint64_t> offsets = m.layout.offsets(names);
  const int64_t rows = graph.nodes * (sum_types ? 1 : int64_t(graph.types.size()));
  const auto x = random_numbers<Real>(seed, 1, graph.nodes * batch * width);
  const auto grad_out = random_numbers<Real>(seed, 2, rows * batch * width);
  const auto eps = random_numbers<P>(seed, 3, int64_t(graph.types.size()));
  const auto values = random_numbers<P>(seed, 4, with_values ? int64_t(graph.edge_count()) : 0);

  const DeviceRemoved device_removed(removed);
  const DeviceArray<uint8_t> d_records(records);
  const DeviceArray<Real> d_x(x), d_grad(grad_out), out(grad_out.size()), grad_x(x.size()),
      plain(grad_out.size()), plain_grad_x(x.size());
  const DeviceArray<P> d_eps(eps), d_values(values), grad_eps(eps.size()), plain_eps(eps.size()),
      grad_values(values.size());
  const auto call_of = [&](const Keep& keep) {
    return device_call({reduce, sum_types}, keep, width, d_x, d_values, d_eps);
  };
  const auto masks_in = [&](const DeviceArray<uint8_t>& of) {
    return MaskView{{of.data(), of.size()}, m.layout.stride(), offsets};
  };
  const auto masked = call_of(masks_in(d_records)), indexed = call_of(device_removed.nodes());
  const DeviceArray<std::byte> work(aggregate_cuda_workspace(device.view(), masked));
  const DeviceArray<std::byte> plain_work(aggregate_cuda_workspace(device.view(), indexed));
  aggregate_cuda(device.view(), masked, out.data(), {.workspace = work.data()});
  aggregate_cuda(device.view(), indexed, plain.data(), {.workspace = plain_work.data()});
  EXPECT_EQ(std::memcmp(out.host().data(), plain.host().data(), out.size() * sizeof(Real)), 0);
  aggregate_backward_cuda(device.view(), masked,
                          {.out = d_grad.data(),
                           .x = grad_x.data(),
                           .eps = grad_eps.data(),
                           .values = with_values ? grad_values.data() : nullptr},
                          {.workspace = work.data()});
  aggregate_backward_cuda(device.view(), indexed,
                          {.out = d_grad.data(), .x = plain_grad_x.data(), .eps = plain_eps.data()},
                          {.workspace = plain_work.data()});
  EXPECT_EQ(std::memcmp(grad_x.host().data(), plain_grad_x.host().data(), x.size() * sizeof(Real)),
            0);
  EXPECT_EQ(grad_eps.host(), plain_eps.host());
  if (with_values) {
    std::vector<Real> cpu_x(x.size());
    std::vector<P> cpu_eps(eps.size()), cpu_values(values.size());
    const MaskView host_masks = {records, m.layout.stride(), offsets};
    aggregate_backward(device.plan,
                       make_call({reduce, sum_types}, host_masks, width, x, values, eps),
                       {.out = grad_out.data(),
                        .x = cpu_x.data(),
                        .eps = cpu_eps.data(),
                        .values = cpu_values.data()});
    EXPECT_LT(distance(grad_values.host(), cpu_values), tolerance<Real>());
    EXPECT_LT(distance(grad_x.host(), cpu_x), tolerance<Real>());
  }
  // A flipped byte is seen: a self loop of a node that nobody removes, switched off.
  const auto& [sources, targets] = graph.types[0];
  for (size_t e = sources.size(); e-- > 0;) {
    if (sources[e] != targets[e]) continue;
    const auto gone = removed.view().index;
    if (std::find(gone.begin(), gone.end(), int32_t(sources[e])) != gone.end()) continue;
    records[offsets[0] + e] = 0;
    break;
  }
  const DeviceArray<uint8_t> flipped(records);
  aggregate_cuda(device.view(), call_of(masks_in(flipped)), out.data(), {.workspace = work.data()});
  EXPECT_NE(std::memcmp(out.host().data(), plain.host().data(), out.size() * sizeof(Real)), 0);
}

TEST(AggregateMaskedCuda, SameBitsAsFromIndices) {
  LACUNA_NEEDS_GPU();
  for (const Reduce reduce : {Reduce::sum, Reduce::mean, Reduce::gcn}) {
    expect_masked<float>(reduce, false, false);
    expect_masked<float>(reduce, true, false);
    expect_masked<BFloat16>(reduce, false, false);
    expect_masked<double>(reduce, false, false);
  }
  expect_masked<float>(Reduce::sum, false, true);
  expect_masked<double>(Reduce::sum, true, true);
}

// ---- aggregate_shared

template <class Real>
void expect_shared(const GraphShape& shape, Reduce reduce, bool sum_types, bool with_values,
                   uint32_t most, int64_t width) {
  using P = Parameter<Real>;
  const uint64_t seed = test_seed();
  SCOPED_TRACE("seed " + std::to_string(seed) + ", reduce " + std::string(name(reduce)) +
               ", most removed " + std::to_string(most));
  const int64_t batch = 11;
  const RandomGraph graph = random_graph(seed, shape);
  const DeviceGraph device(graph, 0);
  const RandomRemoved removed = random_removed(seed, graph.nodes, batch, most);
  const int64_t rows = graph.nodes * (sum_types ? 1 : int64_t(graph.types.size()));
  const auto x = random_numbers<Real>(seed, 1, graph.nodes * width);
  const auto grad_out = random_numbers<Real>(seed, 2, rows * batch * width);
  const auto eps = random_numbers<P>(seed, 3, int64_t(graph.types.size()));
  const auto values = random_numbers<P>(seed, 4, with_values ? int64_t(graph.edge_count()) : 0);
  std::vector<Real> want(grad_out.size()), want_x(x.size());
  std::vector<P> want_eps(eps.size()), want_values(values.size());
  auto cpu = make_call({reduce, sum_types}, removed.view(), width, x, values, eps);
  cpu.shared = true;
  aggregate(device.plan, cpu, want.data());
  aggregate_backward(device.plan, cpu,
                     {.out = grad_out.data(),
                      .x = want_x.data(),
                      .eps = want_eps.data(),
                      .values = with_values ? want_values.data() : nullptr});

  const DeviceRemoved device_removed(removed);
  const DeviceArray<Real> d_x(x), d_grad(grad_out), out(grad_out.size()), grad_x(x.size());
  const DeviceArray<P> d_eps(eps), d_values(values), grad_eps(eps.size()),
      grad_values(values.size());
  auto call = device_call({reduce, sum_types}, device_removed.nodes(), width, d_x, d_values, d_eps);
  call.shared = true;
  const DeviceArray<std::byte> work(aggregate_cuda_workspace(device.view(), call));
  aggregate_cuda(device.view(), call, out.data(), {.workspace = work.data()});
  EXPECT_LT(distance(out.host(), want), tolerance<Real>());
  aggregate_backward_cuda(device.view(), call,
                          {.out = d_grad.data(),
                           .x = grad_x.data(),
                           .eps = grad_eps.data(),
                           .values = with_values ? grad_values.data() : nullptr},
                          {.workspace = work.data()});
  EXPECT_LT(distance(grad_x.host(), want_x), tolerance<Real>());
  EXPECT_LT(distance(grad_eps.host(), want_eps), std::max(1e-6, tolerance<Real>()));
  EXPECT_LT(distance(grad_values.host(), want_values), std::max(1e-6, tolerance<Real>()));
}

TEST(AggregateSharedCuda, EqualsTheHost) {
  LACUNA_NEEDS_GPU();
  const GraphShape small = {.nodes = 200, .edges = {3000, 0, 500}, .hub = 150};
  const GraphShape hubs = {.nodes = 3000, .edges = {20000, 3000}, .hub = 2900};
  for (const Reduce reduce : {Reduce::sum, Reduce::mean}) {
    for (const bool sum_types : {false, true}) {
      expect_shared<double>(small, reduce, sum_types, false, 10, 20);
      expect_shared<float>(small, reduce, sum_types, false, 199, 33);
      expect_shared<BFloat16>(small, reduce, sum_types, false, 3, 64);
    }
  }
  expect_shared<double>(small, Reduce::sum, false, true, 10, 8);
  expect_shared<float>(small, Reduce::sum, true, true, 10, 8);
  expect_shared<float>(hubs, Reduce::sum, false, false, 150, 16);   // several hundred are listed
  expect_shared<float>(hubs, Reduce::sum, false, false, 2800, 16);  // more than can be listed
}

// ---- bipartite

template <class Real>
void expect_bipartite(BipartiteStep step, uint32_t most) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE("seed " + std::to_string(seed) + ", step " + std::string(name(step)));
  Random random(seed);
  const uint32_t genes = 40, reactions = 55, metabolites = 25;
  std::vector<uint32_t> gene, reaction, from, to;
  std::vector<float> coefficients;
  for (int e = 0; e < 50; ++e) {
    gene.push_back(uint32_t(random.below(genes)));
    reaction.push_back(uint32_t(random.below(reactions)));
  }
  for (int e = 0; e < 150; ++e) {
    from.push_back(uint32_t(random.below(reactions)));
    to.push_back(uint32_t(random.below(metabolites)));
    coefficients.push_back(float(random.normal()));
  }
  const BipartiteGraph graph = {
      make_bipartite_plan(genes, reactions, metabolites, {gene, reaction}, {from, to}), genes,
      reactions, metabolites, coefficients};
  const int64_t batch = 35, width = 9;
  const RandomRemoved removed = random_removed(seed, genes, batch, most);
  const auto x = random_numbers<Real>(seed, 1, source_count(graph, step) * batch * width);
  const auto grad = random_numbers<Real>(seed, 2, target_count(graph, step) * batch * width);
  std::vector<Real> want(grad.size()), want_x(x.size());
  bipartite<Real>(graph, step, width, x.data(), removed.view(), want.data());
  bipartite_backward<Real>(graph, step, width, grad.data(), removed.view(), want_x.data());

  const auto plan_bytes = to_device(graph.plan.bytes());
  const DeviceArray<float> d_coefficients(coefficients);
  const CudaBipartite device = {&graph, plan_bytes.data(), d_coefficients.data()};
  const DeviceRemoved device_removed(removed);
  const DeviceArray<std::byte> work(bipartite_cuda_workspace(graph, batch));
  const DeviceArray<Real> d_x(x), d_grad(grad), out(grad.size()), grad_x(x.size());
  bipartite_cuda<Real>(device, step, width, d_x.data(), device_removed.view(), out.data(),
                       work.data(), nullptr, nullptr);
  bipartite_backward_cuda<Real>(device, step, width, d_grad.data(), device_removed.view(),
                                grad_x.data(), work.data(), nullptr, nullptr);
  EXPECT_LT(distance(out.host(), want), tolerance<Real>());
  EXPECT_LT(distance(grad_x.host(), want_x), tolerance<Real>());
}

TEST(BipartiteCuda, EqualsTheHost) {
  LACUNA_NEEDS_GPU();
  for (const BipartiteStep step :
       {BipartiteStep::gene_to_reaction, BipartiteStep::reaction_to_metabolite,
        BipartiteStep::metabolite_to_reaction, BipartiteStep::reaction_to_gene}) {
    for (const uint32_t most : {0u, 3u, 30u}) {
      expect_bipartite<double>(step, most);
      expect_bipartite<float>(step, most);
      expect_bipartite<BFloat16>(step, most);
    }
  }
}

}  // namespace
}  // namespace lacuna
