#include "lacuna/run/ensemble/baseline_member.h"

#include <gtest/gtest.h>

#include <set>

#include "lacuna/core/testing.h"
#include "lacuna/screen/testing.h"

namespace lacuna {
namespace {

// Whatever changes the predictions, so that those of one are never taken for another's.
TEST(BaselineMember, AnIdKnowsAllThatItIsFittedTo) {
  const TemporaryDirectory folder;
  const Samples samples = small_samples(1, 80);
  const Split split = thirds_split(80);
  Split other = split;
  other.parts = Array::from(std::vector<uint8_t>(80, 0));
  const Screen screen = write_screen(folder / "screen", {small_graph(1), samples, {split}, {}});
  const auto id = [&](const std::string& name, const Split& on, uint64_t label, float weight) {
    BaselineFit fit = {.name = name, .screen = screen, .split = on, .labels = {label}};
    if (weight > 0) {
      std::vector<float> weights(80, 1);
      weights[0] = weight;
      fit.weights = Column{"weight", Array::from(std::move(weights)), {}};
    }
    return BaselineMember(std::move(fit)).id();
  };
  const std::set<std::string> ids = {id("ridge", split, 0, 0), id("gene", split, 0, 0),
                                     id("ridge", other, 0, 0), id("ridge", split, 1, 0),
                                     id("ridge", split, 0, 2), id("ridge", split, 0, 3)};
  EXPECT_EQ(ids.size(), 6u);
  EXPECT_TRUE(ids.contains(id("ridge", split, 0, 2)));
}

}  // namespace
}  // namespace lacuna
