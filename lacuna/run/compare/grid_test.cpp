#include "lacuna/run/compare/grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lacuna/core/testing.h"
#include "lacuna/screen/testing.h"

namespace lacuna {
namespace {

using ::testing::ElementsAre;

class GridTest : public ::testing::Test {
 protected:
  GridTest() { write_file(folder_ / "config.yaml", "screen: some/where\ntrain: {epochs: 3}\n"); }

  GridOptions options() const {
    GridOptions options;
    options.config = folder_ / "config.yaml";
    options.splits = {"random", "pair"};
    options.seeds = 2;
    options.variations = {parse_variation("train.lr=1e-3,3e-4")};
    return options;
  }
  std::vector<std::string> names(const GridOptions& options) const {
    std::vector<std::string> names;
    for (const auto& run : make_grid(options).runs) names.push_back(run.name);
    return names;
  }

  TemporaryDirectory folder_;
};

TEST(Variation, IsAKeyAndValues) {
  const Variation variation = parse_variation("train.lr=1e-3,3e-4");
  EXPECT_EQ(variation.key, "train.lr");
  EXPECT_THAT(variation.values, ElementsAre("1e-3", "3e-4"));
  EXPECT_THAT(parse_variation("labels=[a,b],[c]").values, ElementsAre("[a,b]", "[c]"));
  EXPECT_THAT(parse_variation("model={name: mlp, width: 8},{name: x}").values,
              ElementsAre("{name: mlp, width: 8}", "{name: x}"));
  EXPECT_THAT(parse_variation("screen='a,b',\"c,[\"").values, ElementsAre("'a,b'", "\"c,[\""));
  for (const char* text : {"train.lr", "=3", "train.lr=", "train.lr=1,,2", "train.lr=1,1"})
    EXPECT_ERROR(parse_variation(text), "--vary");
}

TEST_F(GridTest, EveryCombinationIsARunSeedsFirst) {
  EXPECT_THAT(names(options()),
              ElementsAre("random_train.lr=1e-3_seed=1", "random_train.lr=3e-4_seed=1",
                          "pair_train.lr=1e-3_seed=1", "pair_train.lr=3e-4_seed=1",
                          "random_train.lr=1e-3_seed=2", "random_train.lr=3e-4_seed=2",
                          "pair_train.lr=1e-3_seed=2", "pair_train.lr=3e-4_seed=2"));
  const Grid grid = make_grid(options());
  const Config& config = grid.runs[7].config;
  EXPECT_EQ(config.split, "pair");
  EXPECT_EQ(config.train.lr, 3e-4);
  EXPECT_EQ(config.train.seed, 2u);
  EXPECT_EQ(config.train.epochs, 3);
  EXPECT_EQ(grid.runs[0].config.train.lr, 1e-3);
}

TEST_F(GridTest, NamesDoNotDependOnTheOrderOfKeysAndStayInTheDirectory) {
  GridOptions one = options(), other = options();
  one.variations = {{"model.name", {"mlp"}}, {"graph", {"kept", "shuffled"}}};
  other.variations = {{"graph", {"kept", "shuffled"}}, {"model.name", {"mlp"}}};
  EXPECT_EQ(names(one), names(other));
  one.variations = {{"screen", {"../a/b", "c d"}}};
  one.splits = {"../x"};
  for (const auto& name : names(one)) EXPECT_EQ(name.find('/'), std::string::npos) << name;
  one.variations = {{"screen", {"a/b", "a b"}}};
  EXPECT_ERROR(make_grid(one), "two runs would be called ..-x_screen=a-b_seed=1");
}

TEST_F(GridTest, ModelsLeaveOutTheKeysThatTheyHaveNot) {
  write_file(folder_ / "config.yaml", "screen: s\nmodel: {layers: 2, width: 8}\n");
  GridOptions asked = options();
  asked.settings = {"model.merge=mean"};
  asked.variations = {{"model.name", {"dango", "hetero_gin", "mlp"}}};
  const Grid grid = make_grid(asked);
  for (const GridRun& run : grid.runs) {
    const bool has_layers = run.values[0] == "hetero_gin";
    EXPECT_EQ(bool(run.config.resolved["model"]["layers"]), has_layers) << run.name;
    EXPECT_EQ(run.left_out.empty(), has_layers) << run.name;
    EXPECT_EQ(run.config.model["width"].as<int>(), 8) << run.name;
  }
  EXPECT_THAT(left_out_words(grid),
              ElementsAre("model dango has no model.layers, model.merge: left out of its runs",
                          "model mlp has no model.layers, model.merge: left out of its runs"));
  asked.variations.push_back({"model.layers", {"1", "2"}});  // both would be the same run of an mlp
  EXPECT_ERROR(make_grid(asked), "no setting 'model.layers'");
  asked.variations.pop_back();
  asked.settings = {"model.mrege=mean"};
  EXPECT_ERROR(make_grid(asked), "did you mean 'model.merge'?");
  asked = options();
  EXPECT_TRUE(left_out_words(make_grid(asked)).empty());
}

TEST_F(GridTest, RefusesWhatMakesNoSense) {
  const auto with = [&](auto change) {
    GridOptions changed = options();
    change(changed);
    return make_grid(changed);
  };
  EXPECT_ERROR(with([](auto& o) { o.splits.push_back("pair"); }), "split 'pair' is named twice");
  EXPECT_ERROR(with([](auto& o) { o.seeds = 0; }), "--seeds is 0");
  EXPECT_ERROR(with([](auto& o) { o.variations.push_back(o.variations[0]); }), "varied twice");
  EXPECT_ERROR(with([](auto& o) { o.settings = {"train.lr=1"}; }), "both set and varied");
  EXPECT_ERROR(with([](auto& o) { o.settings = {"split=pair"}; }), "--splits");
  EXPECT_ERROR(with([](auto& o) { o.variations[0].key = "train.seed"; }), "--seeds");
  EXPECT_ERROR(with([](auto& o) { o.variations[0].key = "train.lrr"; }), "train.lrr");
  EXPECT_ERROR(with([](auto& o) { o.settings = {"evaluate.parts=[]"}; }), "nothing to compare");
}

TEST_F(GridTest, ADirectoryKeepsItsGrid) {
  const fs::path out = folder_ / "out";
  claim_directory(out, make_grid(options()), "first");
  claim_directory(out, make_grid(options()), "same");
  const auto claim = [&](auto change) {
    GridOptions changed = options();
    change(changed);
    claim_directory(out, make_grid(changed), "other");
  };
  const std::string before = read_text(out / "compare.json");
  EXPECT_ERROR(claim([](auto& o) { o.settings = {"train.epochs=4"}; }),
               "its train.epochs is '3', here '4'");
  EXPECT_ERROR(claim([](auto& o) { o.settings = {"model.width=4"}; }),
               "its model.width is '64', here '4'");
  EXPECT_ERROR(claim([](auto& o) { o.settings = {"evaluate.parts=[test]"}; }), "evaluate.parts");
  EXPECT_ERROR(claim([](auto& o) { o.splits = {"random"}; }), "it has split 'pair' too");
  EXPECT_ERROR(claim([](auto& o) { o.seeds = 1; }), "it has 2 seeds, this one 1");
  EXPECT_ERROR(claim([](auto& o) { o.variations[0].values.pop_back(); }),
               "it has train.lr=3e-4 too");
  EXPECT_ERROR(claim([](auto& o) { o.variations.clear(); }), "it varies [train.lr], this one []");
  EXPECT_ERROR(claim([](auto& o) { o.variations[0].key = "train.weight_decay"; }), "it varies");
  EXPECT_EQ(read_text(out / "compare.json"), before);
  // The same in other words: a number, a place, a default.
  claim([](auto& o) {
    o.settings = {"train.clip=1e1", "model.width=64",
                  "screen=" + (fs::current_path() / "some/there/../where").string()};
  });

  // What the grid itself sets may change in the config.
  write_file(folder_ / "config.yaml",
             "screen: some/where\nsplit: x\ntrain: {epochs: 3, seed: 9, lr: 5}\n");
  claim([](auto&) {});

  claim([](auto& o) {
    o.seeds = 3;
    o.splits = {"gene", "pair", "random"};
    o.variations[0].values.push_back("1e-2");
  });
  EXPECT_ERROR(claim([](auto&) {}), "it has split 'gene' too");  // it has grown
}

TEST_F(GridTest, ADirectoryOfSomethingElseIsRefused) {
  const fs::path out = folder_ / "out";
  fs::create_directory(out);
  write_file(out / "notes.txt", "mine");
  EXPECT_ERROR(claim_directory(out, make_grid(options()), ""), "holds something else");
  write_file(out / "compare.json", "{");
  EXPECT_ERROR(claim_directory(out, make_grid(options()), ""), "damaged");
  write_file(out / "compare.json", "{\"format\": \"lacuna.compare\", \"version\": 9}");
  EXPECT_ERROR(claim_directory(out, make_grid(options()), ""), "made by another version");
}

TEST_F(GridTest, WithoutSplitsTheConfigsOwnIsTaken) {
  GridOptions asked = options();
  asked.splits.clear();
  asked.seeds = 1;
  EXPECT_THAT(names(asked),
              ElementsAre("random_train.lr=1e-3_seed=1", "random_train.lr=3e-4_seed=1"));
}

TEST_F(GridTest, AMissingSplitIsSaidWithItsCommand) {
  const fs::path path = folder_ / "screen";
  write_screen(path, {small_graph(1), small_samples(1, 20), {thirds_split(20, "random")}, {}});
  GridOptions asked = options();
  asked.settings = {"screen=" + path.string()};
  const auto look = [&] {
    Grid grid = make_grid(asked);
    read_screens(grid);
    return grid;
  };
  EXPECT_ERROR(look(), "has no split 'pair'; make it: `lacuna split " + path.string() +
                           " --name pair --by pair --seed 1`");
  asked.splits = {"random", "mine"};
  EXPECT_ERROR(look(), "--name mine --by random|stratified|gene|pair");
  asked.splits = {"random"};
  EXPECT_EQ(look().screens.size(), 1u);
}

TEST_F(GridTest, AScreenThatHasChangedIsRefused) {
  const fs::path path = folder_ / "screen";
  GridOptions asked = options();
  asked.settings = {"screen=" + path.string()};
  asked.splits = {"random"};
  const auto claim = [&](uint64_t seed) {
    fs::remove_all(path);
    write_screen(path, {small_graph(1), small_samples(seed, 20), {thirds_split(20, "random")}, {}});
    Grid grid = make_grid(asked);
    read_screens(grid);
    claim_directory(folder_ / "out", grid, "");
  };
  claim(1);
  claim(1);
  EXPECT_ERROR(claim(2), "has changed since ('samples 0:20' differs)");
  asked.settings = {"screen=" + fs::relative(path).string()};  // the same place
  EXPECT_ERROR(claim(2), "has changed since ('samples 0:20' differs)");
}

}  // namespace
}  // namespace lacuna
