// For tests only: small screens to make stores of.
#pragma once

#include <numeric>
#include <string>
#include <vector>

#include "lacuna/core/testing.h"
#include "lacuna/graph/generate_graph.h"
#include "lacuna/masks/prepare_masks.h"
#include "lacuna/screen/testing.h"

namespace lacuna::testing {

inline std::vector<uint64_t> first_samples(uint64_t count) {
  std::vector<uint64_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

// One graph and samples of nought to four genes; screens of the first few of them.
struct StoreScreens {
  explicit StoreScreens(uint64_t samples = 300, GraphSize size = GraphSize::tiny)
      : graph(generate_graph(size, seed)),
        all(small_samples(seed, samples, graph.genes().size())) {}

  Screen write(const std::string& name, const HeteroGraph& of, const Samples& samples) const {
    return write_screen(directory / name, {of, samples, {}, Json::object()});
  }
  Screen write(const std::string& name, uint64_t samples) const {
    return write(name, graph, take_samples(all, first_samples(samples)));
  }

  uint64_t seed = test_seed();
  TemporaryDirectory directory;
  HeteroGraph graph;
  Samples all;
};

// Whether the store holds exactly the masks of samples begin to end - 1, made by the function that
// the masks' own tests check.
inline void expect_masks(const Screen& screen, const MaskStore& store, uint64_t begin,
                         uint64_t end) {
  EXPECT_EQ(store.begin(), begin);
  EXPECT_EQ(store.end(), end);
  const RemovalRules rules(screen.graph());
  const MaskLayout layout(rules, MaskForm::u8);
  const MaskTable table(rules, layout);
  const RemovedReader reader(screen.samples());
  std::vector<uint32_t> genes;
  for (uint64_t s = begin; s < end; ++s) {
    reader.read(s, genes);
    const std::vector<int32_t> index(genes.begin(), genes.end()), ptr = {0, int32_t(genes.size())};
    std::vector<uint8_t> expected(layout.stride()), found(layout.stride(), 0xaa);
    write_masks(layout, table, {index, ptr}, expected.data(), 1);
    expand_masks(store.layout(), store.form(), store.record(s), found.data());
    ASSERT_EQ(found, expected) << "sample " << s;
  }
}

}  // namespace lacuna::testing
