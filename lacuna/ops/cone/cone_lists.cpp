#include <algorithm>
#include <bit>
#include <numeric>

#include "lacuna/core/error.h"
#include "lacuna/core/system/threads.h"
#include "lacuna/ops/cone/cone.h"

namespace lacuna {
namespace {

constexpr int64_t kWordBits = 64;

std::vector<uint64_t> removed_bits(const GraphPlan& plan, const RemovedView& removed,
                                   int64_t words) {
  std::vector<uint64_t> bits(size_t(plan.node_count()) * size_t(words), 0);
  for (int64_t b = 0; b < removed.batch(); ++b)
    for (int32_t i = removed.ptr[size_t(b)]; i < removed.ptr[size_t(b) + 1]; ++i)
      bits[size_t(int64_t(removed.index[size_t(i)]) * words + b / kWordBits)] |= uint64_t(1)
                                                                                 << (b % kWordBits);
  return bits;
}

// differs[t, n] = own[n] | any of sources[in-neighbours of n by t], without removed[n].
// own: null = none; own and sources [N, words]
void mark_targets(const GraphPlan& plan, const uint64_t* own, const std::vector<uint64_t>& sources,
                  ConeMarks& marks, int threads) {
  const int64_t words = marks.words();
  parallel_for(uint64_t(marks.types), threads, [&](uint64_t t) {
    const CsrView csr = plan.by_target(uint32_t(t));
    for (int64_t n = 0; n < marks.nodes; ++n)
      for (int64_t w = 0; w < words; ++w) {
        uint64_t bits = own ? own[n * words + w] : 0;
        for (uint32_t e = csr.ptr[n]; e < csr.ptr[n + 1]; ++e)
          bits |= sources[size_t(int64_t(plan.neighbour(csr, e)) * words + w)];
        marks.differs[size_t((int64_t(t) * marks.nodes + n) * words + w)] =
            bits & ~marks.removed[size_t(n * words + w)];
      }
  });
}

}  // namespace

int64_t cone_capacity(const GraphPlan& plan, int64_t batch, int64_t widest) {
  const auto nodes = int64_t(plan.node_count());
  const auto some = size_t(std::min(widest, nodes));
  int64_t most = 0;  // rows that one sample lists
  for (uint32_t t = 0; t < plan.type_count(); ++t) {
    const CsrView csr = plan.by_source(t);
    std::vector<int64_t> degrees(size_t(nodes), 0);
    for (size_t n = 0; n < degrees.size(); ++n) degrees[n] = csr.ptr[n + 1] - csr.ptr[n];
    std::partial_sort(degrees.begin(), degrees.begin() + int64_t(some), degrees.end(),
                      std::greater<>());
    most = std::max(most,
                    std::accumulate(degrees.begin(), degrees.begin() + int64_t(some), int64_t(0)));
  }
  return batch * std::min(most, nodes);
}

std::vector<int64_t> ConeMarks::counts() const {
  std::vector<int64_t> result(size_t(types), 0);
  const size_t of_type = size_t(nodes * words());
  for (size_t i = 0; i < differs.size(); ++i) result[i / of_type] += std::popcount(differs[i]);
  return result;
}

ConeMarks ConeMarks::either() const {
  ConeMarks result = {
      .nodes = nodes, .types = 1, .batch = batch, .removed = removed, .differs = {}};
  const size_t of_type = size_t(nodes * words());
  result.differs.assign(of_type, 0);
  for (size_t i = 0; i < differs.size(); ++i) result.differs[i % of_type] |= differs[i];
  return result;
}

ConeMarks mark_cone(const GraphPlan& plan, const RemovedView& removed, int threads) {
  check_removed(removed, plan.node_count());
  ConeMarks marks = {.nodes = plan.node_count(),
                     .types = plan.type_count(),
                     .batch = removed.batch(),
                     .removed = {},
                     .differs = {}};
  marks.removed = removed_bits(plan, removed, marks.words());
  marks.differs.resize(size_t(marks.types * marks.nodes * marks.words()));
  mark_targets(plan, nullptr, marks.removed, marks, threads);
  return marks;
}

ConeMarks mark_next(const GraphPlan& plan, const ConeMarks& before, int threads) {
  ConeMarks marks = before;
  const std::vector<uint64_t> own = before.either().differs;
  std::vector<uint64_t> sources = own;  // what targets lose, or read another value of
  for (size_t i = 0; i < sources.size(); ++i) sources[i] |= before.removed[i];
  mark_targets(plan, own.data(), sources, marks, threads);
  return marks;
}

void cone_lists(const ConeMarks& marks, const ConeShape& shape, const ConeLists& lists,
                int threads) {
  const int64_t words = marks.words();
  parallel_for(uint64_t(shape.types), threads, [&](uint64_t task) {
    const auto t = int64_t(task);
    int64_t count = 0;
    for (int64_t n = 0; n < shape.nodes; ++n) {
      const uint64_t* differs = marks.differs.data() + (t * shape.nodes + n) * words;
      const uint64_t* removed = marks.removed.data() + n * words;
      int32_t* place = lists.place + (t * shape.nodes + n) * shape.batch;
      const auto has = [](const uint64_t* bits, int64_t b) {
        return (bits[b / kWordBits] >> (b % kWordBits) & 1) != 0;
      };
      for (int64_t b = 0; b < shape.batch; ++b) {
        place[b] = has(removed, b) ? -1 : 0;
        if (!has(differs, b)) continue;
        if (count == shape.capacity)
          throw Error("a batch changes more than {} rows of edge type {}, for which there is room",
                      shape.capacity, t);
        lists.row[t * shape.capacity + count] = int32_t(n * shape.batch + b);
        place[b] = int32_t(++count);
      }
    }
    lists.used[t] = int32_t(shape.first() + count);
  });
}

}  // namespace lacuna
