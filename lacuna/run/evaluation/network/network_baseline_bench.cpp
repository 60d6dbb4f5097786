// The baseline `network` at yeast size: 332,313 samples of three genes, nine networks of 2.5
// million edges, four fifths of the samples in training and all of the rest predicted.
#include "lacuna/run/evaluation/network/network_baseline.h"

#include <benchmark/benchmark.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "lacuna/core/error.h"
#include "lacuna/screen/generate_screen.h"

namespace lacuna {
namespace {

void fit_network(benchmark::State& state) {
  const GeneratedScreen screen = generate_screen({.seed = 1});
  const uint32_t genes = screen.graph.genes().size();
  std::vector<uint8_t> parts;
  std::vector<uint64_t> test;
  for (uint64_t s = 0; s < screen.samples.size(); ++s) {
    parts.push_back(uint8_t(s % 10 < 8    ? Part::train
                            : s % 10 == 8 ? Part::validation
                                          : Part::test));
    if (s % 10 == 9) test.push_back(s);
  }
  const Split split = {"tenths", Array::from(std::move(parts)), {}};
  const auto fits = fit_baselines(screen.samples, genes, split, 0);
  for (auto _ : state) {
    const auto networks = gene_networks(screen.graph);
    const auto found = network_baseline({.networks = networks,
                                         .samples = screen.samples,
                                         .split = split,
                                         .ridge = fits.at(3),
                                         .others = screen.samples,
                                         .chosen = {test}},
                                        {}, Progress::none());
    LACUNA_ASSERT(found && found->predicted[0].size() == test.size());
    state.SetLabel(found->note);
  }
}
BENCHMARK(fit_network)->Unit(benchmark::kSecond)->Iterations(1);

}  // namespace
}  // namespace lacuna
