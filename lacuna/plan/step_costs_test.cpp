#include "lacuna/plan/step_costs.h"

#include <gmock/gmock.h>

#include "lacuna/core/system/threads.h"
#include "lacuna/core/testing.h"
#include "lacuna/screen/testing.h"

namespace lacuna {
namespace {

struct SmallScreen {
  TemporaryDirectory folder;
  Screen screen;
  RemovalRules rules;

  explicit SmallScreen(uint64_t samples)
      : screen(write_screen(folder / "screen", {.graph = small_graph(1),
                                                .samples = small_samples(1, samples),
                                                .splits = {},
                                                .made_by = Json::object()})),
        rules(screen.graph()) {}
  StepCosts measure(const CostSettings& settings) const {
    return measure_costs(screen, rules, MaskEncoder(rules, MaskForm::positions), settings);
  }
};

TEST(StepCosts, EveryStepTakesTime) {
  const StepCosts costs = SmallScreen(100).measure({.budget = 0.002});
  for (const double seconds :
       {costs.indices, costs.handed, costs.update, costs.first, costs.look_up, costs.seconds})
    EXPECT_GT(seconds, 0);
  for (const MaskForm form : {MaskForm::u8, MaskForm::bits, MaskForm::bf16, MaskForm::positions}) {
    EXPECT_GT(costs.of(form).expand, 0) << name(form);
    EXPECT_GT(costs.of(form).make, 0) << name(form);
  }
  EXPECT_EQ(costs.batch, 28u);
  EXPECT_EQ(costs.threads, std::min(2, available_threads()));
}

TEST(StepCosts, FewSamplesLittleMemoryManyThreads) {
  const SmallScreen one(1);  // fewer than a batch, and than threads
  const StepCosts costs = one.measure({.batch = 1000, .threads = 64, .memory = 1, .budget = 0.001});
  EXPECT_EQ(costs.batch, 1u);
  EXPECT_LE(costs.threads, available_threads());
  EXPECT_GT(costs.update, 0);
}

}  // namespace
}  // namespace lacuna
