#include "lacuna/graph/graph_plan.h"

#include <gtest/gtest.h>

#include <cstring>

#include "lacuna/core/error.h"
#include "lacuna/core/system/scratch.h"
#include "lacuna/graph/testing.h"

namespace lacuna {
namespace {

using testing::random_graph;
using testing::test_seed;

// Every edge stands once in its row, in edge order, with the right neighbour.
void expect_rows(const GraphPlan& plan, const CsrView& csr, std::span<const uint32_t> rows,
                 std::span<const uint32_t> others) {
  ASSERT_EQ(csr.ptr[0], 0u);
  std::vector<bool> seen(rows.size());
  for (uint32_t row = 0; row < plan.node_count(); ++row) {
    ASSERT_LE(csr.ptr[row], csr.ptr[row + 1]);
    for (uint32_t k = csr.ptr[row]; k < csr.ptr[row + 1]; ++k) {
      const uint32_t e = csr.edge[k];
      ASSERT_LT(e, rows.size());
      ASSERT_FALSE(seen[e]);
      seen[e] = true;
      ASSERT_EQ(rows[e], row);
      ASSERT_EQ(others[e], plan.neighbour(csr, k));
      ASSERT_TRUE(k == csr.ptr[row] || e > csr.edge[k - 1]);
    }
  }
  ASSERT_EQ(csr.ptr[plan.node_count()], rows.size());
}

void expect_plan_of(const testing::RandomGraph& graph, const GraphPlan& plan) {
  ASSERT_EQ(plan.node_count(), graph.nodes);
  ASSERT_EQ(plan.type_count(), graph.types.size());
  ASSERT_EQ(plan.edge_count(), graph.edge_count());
  uint64_t first = 0;
  for (uint32_t t = 0; t < plan.type_count(); ++t) {
    const auto& [sources, targets] = graph.types[t];
    EXPECT_EQ(plan.first_edge(t), first);
    ASSERT_EQ(plan.edge_count(t), sources.size());
    expect_rows(plan, plan.by_target(t), targets, sources);
    expect_rows(plan, plan.by_source(t), sources, targets);
    first += sources.size();
  }
}

TEST(GraphPlan, HoldsEveryEdgeBothWays) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  for (const uint32_t nodes : {1u, 7u, 65536u, 65537u}) {
    const auto graph = random_graph(
        seed, {.nodes = nodes, .edges = {300, 0, 40}, .self_loops = nodes < 300, .hub = 20});
    const GraphPlan plan = graph.plan();
    EXPECT_EQ(plan.index_bytes(), nodes <= 65536 ? 2u : 4u);
    expect_plan_of(graph, plan);
  }
}

TEST(GraphPlan, LargestIndexFitsItsType) {
  for (const uint32_t nodes : {65536u, 65537u}) {
    testing::RandomGraph graph;
    graph.nodes = nodes;
    graph.types = {{{nodes - 1, 0}, {0, nodes - 1}}};
    expect_plan_of(graph, graph.plan());
  }
}

TEST(GraphPlan, NoTypesAndNoNodes) {
  EXPECT_EQ(GraphPlan::make(5, {}).edge_count(), 0u);
  const EdgeList empty;
  EXPECT_EQ(GraphPlan::make(0, {&empty, 1}).edge_count(0), 0u);
}

TEST(GraphPlan, WorksFromItsBytes) {
  const auto graph = random_graph(test_seed(), {.nodes = 50, .edges = {100, 3}});
  const GraphPlan plan = graph.plan(), again = graph.plan();
  ASSERT_EQ(plan.bytes().size(), again.bytes().size());
  EXPECT_EQ(std::memcmp(plan.bytes().data(), again.bytes().data(), plan.bytes().size()), 0);

  const Scratch<std::byte> copy(plan.bytes().size());
  std::memcpy(copy.get(), plan.bytes().data(), plan.bytes().size());
  expect_plan_of(graph, GraphPlan::from_bytes({copy.get(), plan.bytes().size()}, nullptr));
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(GraphPlan, RefusesBytesThatAreNoPlan) {
  const GraphPlan plan = random_graph(1, {.nodes = 50, .edges = {100, 3}}).plan();
  const size_t size = plan.bytes().size();
  const Scratch<std::byte> copy(size + 1);
  const auto with_change = [&](size_t at, uint32_t value, size_t bytes) {
    std::memcpy(copy.get(), plan.bytes().data(), size);
    std::memcpy(copy.get() + at, &value, sizeof(value));
    return message_of([&] { GraphPlan::from_bytes({copy.get(), bytes}, nullptr); });
  };
  EXPECT_NE(with_change(0, 7, size).find("not a graph plan"), std::string::npos);
  EXPECT_NE(with_change(8, 99, size).find("version 99"), std::string::npos);
  EXPECT_NE(with_change(12, 51, size).find("damaged"), std::string::npos);       // nodes
  EXPECT_NE(with_change(16, 1 << 30, size).find("damaged"), std::string::npos);  // types
  EXPECT_NE(with_change(20, 4, size).find("damaged"), std::string::npos);        // index bytes
  EXPECT_NE(with_change(64, 101, size).find("damaged"), std::string::npos);      // edges of type 0
  EXPECT_NE(with_change(80, 1 << 30, size).find("damaged"), std::string::npos);  // an offset
  EXPECT_NE(with_change(8, 1, size - 1).find("cut short"), std::string::npos);
  EXPECT_NE(with_change(8, 1, 10).find("not a graph plan"), std::string::npos);
  const std::span<const std::byte> crooked = {copy.get() + 1, size - 1};
  EXPECT_NE(message_of([&] { GraphPlan::from_bytes(crooked, nullptr); }).find("aligned"),
            std::string::npos);
}

TEST(GraphPlan, NamesABadEdge) {
  testing::RandomGraph graph;
  graph.nodes = 5;
  graph.types = {{{0, 1}, {1, 2}}, {{0, 1, 2}, {1, 5, 2}}};
  const std::string message = message_of([&] { graph.plan(); });
  EXPECT_NE(message.find("edge 1 of type 1 refers to node 5, but there are 5"), std::string::npos)
      << message;
  graph.types = {{{0, 1}, {1}}};
  EXPECT_NE(message_of([&] { graph.plan(); }).find("2 sources and 1 targets"), std::string::npos);
}

}  // namespace
}  // namespace lacuna
