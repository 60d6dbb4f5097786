#include "lacuna/run/config.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "lacuna/core/error.h"
#include "lacuna/core/seal.h"
#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

Config parse(const std::string& text, const std::vector<std::string>& settings = {}) {
  return parse_config("screen: s\n" + text, settings);
}

TEST(Config, EveryKeyHasADefaultButTheScreen) {
  const Config config = parse("");
  EXPECT_EQ(config.screen, "s");
  EXPECT_EQ(config.split, "random");
  EXPECT_EQ(config.train.batch, 28);
  EXPECT_EQ(config.train.lr, 1e-3);
  EXPECT_EQ(config.evaluate.parts, (std::vector<std::string>{"validation", "test"}));
  EXPECT_ERROR(parse_config("split: random", {}), "names no screen");
  EXPECT_ERROR(parse_config("", {}), "names no screen");
}

TEST(Config, SettingsComeOnTop) {
  const Config config = parse("train: {lr: 1, epochs: 3}\nmodel: {width: 8}",
                              {"train.lr=3e-4", "model.merge=pairwise", "labels=[a, b]",
                               "train.lr=2e-4", "train.batch=auto"});
  EXPECT_EQ(config.train.lr, 2e-4);
  EXPECT_EQ(config.train.epochs, 3);
  EXPECT_EQ(config.train.batch, 0);
  EXPECT_EQ(config.model["width"].as<int>(), 8);
  EXPECT_EQ(config.model["merge"].as<std::string>(), "pairwise");
  EXPECT_EQ(config.labels, (std::vector<std::string>{"a", "b"}));
}

TEST(Config, WhatIsWrittenReadsAsTheSame) {
  const Config config = parse("train: {lr: 0.1, weight_column: w}", {"model.width=24"});
  const Config again = parse_config(to_yaml(config), {});
  EXPECT_EQ(to_yaml(again), to_yaml(config));
  EXPECT_EQ(again.train.weight_column, "w");
  EXPECT_EQ(again.model["width"].as<int>(), 24);
}

TEST(Config, PathsCanBeMadeToMeanTheSameEverywhere) {
  Config config = parse("");
  make_paths_absolute(config);
  const Config again = parse_config(to_yaml(config), {});
  EXPECT_EQ(again.screen, fs::current_path() / "s");
  EXPECT_EQ(config.screen, again.screen);
  EXPECT_EQ(again.store, "");
  Config stored = parse("store: /somewhere/else\n");
  make_paths_absolute(stored);
  EXPECT_EQ(stored.store, "/somewhere/else");
}

TEST(Config, UnknownKeysNameTheNearest) {
  EXPECT_ERROR(parse("train: {learning: 1, lrr: 2}"), "there is no setting 'train.learning'");
  EXPECT_ERROR(parse("train: {lrr: 2}"), "no setting 'train.lrr'; did you mean 'train.lr'?");
  EXPECT_ERROR(parse("spilt: random"), "no setting 'spilt'; did you mean 'split'?");
  EXPECT_ERROR(parse("epochs: 3"), "no setting 'epochs'; did you mean 'train.epochs'?");
  EXPECT_ERROR(parse("train: {zzzzzzzz: 3}"), "no setting 'train.zzzzzzzz'; there are: epochs, ");
  EXPECT_ERROR(parse("split: a\nsplit: b"), "'split' is given twice, again in line ");
  EXPECT_ERROR(parse("", {"train.epoch=3"}), "'train.epoch'; did you mean 'train.epochs'?");
  EXPECT_ERROR(parse("", {"evaluate.part=[test]"}), "did you mean 'evaluate.parts'?");
  EXPECT_ERROR(parse("", {"trian.lr=3"}), "'trian'; did you mean 'train'?");
}

// Who calls wrongly, and whose file is wrong: the exit codes 2 and 1.
TEST(Config, WhatIsWrongOnTopIsTheCallsFault) {
  const auto is_usage = [](const std::string& text, const std::vector<std::string>& settings) {
    try {
      parse_config(text, settings);
    } catch (const UsageError&) {
      return true;
    } catch (const Error&) {
      return false;
    }
    ADD_FAILURE() << "nothing is wrong";
    return false;
  };
  const std::string right = "screen: s\n";
  for (const char* setting : {"train.lrr=2", "trian.lr=2", "model.widht=8", "model.name=gnn",
                              "train.lr=fast", "graph=random", "rung=paper", "screen="})
    EXPECT_TRUE(is_usage(right, {setting})) << setting;
  EXPECT_TRUE(is_usage("", {"screen=s", "train.lr=fast"}));
  for (const char* text : {"train: {lrr: 2}", "model: {widht: 8}", "model: {name: gnn}",
                           "train: {lr: fast}", "rung: paper"}) {
    EXPECT_FALSE(is_usage(right + text, {})) << text;
    EXPECT_FALSE(is_usage(right + text, {"train.epochs=3"})) << text;
  }
  EXPECT_FALSE(is_usage("", {"train.epochs=3"}));  // no screen
}

TEST(Config, AnotherModelLeavesOutWhatItHasNot) {
  const Config config = parse("model: {layers: 2, merge: mean, width: 8}\ntrain: {epochs: 3}");
  std::vector<std::string> left_out;
  const Config same = vary_config(config, {"train.epochs=4", "model.name=hetero_gin"}, left_out);
  EXPECT_TRUE(left_out.empty());
  EXPECT_EQ(same.model["layers"].as<int>(), 2);
  EXPECT_EQ(same.train.epochs, 4);
  for (const char* setting : {"model.name=mlp", "model={name: mlp}"}) {
    left_out.clear();
    const Config mlp = vary_config(config, {setting}, left_out);
    EXPECT_EQ(left_out, (std::vector<std::string>{"model.layers", "model.merge"}));
    EXPECT_FALSE(mlp.resolved["model"]["layers"]);
    EXPECT_EQ(mlp.model["width"].as<int>(), 8);  // which it has, too
    EXPECT_EQ(mlp.train.epochs, 3);
  }
  EXPECT_EQ(config.model["layers"].as<int>(), 2);  // is as it was
  // What is varied itself is never left out.
  EXPECT_ERROR(vary_config(config, {"model.name=mlp", "model.layers=3"}, left_out),
               "no setting 'model.layers'");
  EXPECT_ERROR(vary_config(config, {"model={name: mlp, merge: mean}"}, left_out),
               "no setting 'model.merge'");
  EXPECT_ERROR(vary_config(config, {"model.name=gnn"}, left_out), "no model 'gnn'");
}

TEST(Config, WrongValuesNameTheKey) {
  const auto wrong = [](const std::string& setting) {
    return error_of([&] { parse("", {setting}); });
  };
  EXPECT_NE(wrong("train.lr=fast").find("'train.lr' must be a number"), std::string::npos);
  EXPECT_NE(wrong("train.lr=-1").find("'train.lr' is -1"), std::string::npos);
  EXPECT_NE(wrong("train.lr=nan").find("'train.lr'"), std::string::npos);
  EXPECT_NE(wrong("train.epochs=0").find("'train.epochs' is 0"), std::string::npos);
  EXPECT_NE(wrong("train.epochs=2.5").find("a whole number"), std::string::npos);
  EXPECT_NE(wrong("train.batch=many").find("'train.batch'"), std::string::npos);
  EXPECT_NE(wrong("train.loss=mae").find("mse, logcosh, huber"), std::string::npos);
  EXPECT_NE(wrong("graph=random").find("kept, shuffled"), std::string::npos);
  EXPECT_NE(wrong("train.precision=f16").find("f32, bf16"), std::string::npos);
  EXPECT_NE(wrong("labels=a").find("'labels' must be a list"), std::string::npos);
  EXPECT_NE(wrong("evaluate.parts=[tset]").find("tset"), std::string::npos);
  EXPECT_NE(wrong("evaluate.parts=[test, test]").find("'test' twice"), std::string::npos);
  EXPECT_NE(wrong("evaluate.parts=[validation, val]").find("'validation' twice"),
            std::string::npos);
  EXPECT_NE(wrong("train=3").find("'train' must hold keys"), std::string::npos);
  EXPECT_NE(wrong("train.lr").find("key=value"), std::string::npos);
  for (const char* key : {".lr", "train.", "train..lr", "."})
    EXPECT_NE(wrong(std::string(key) + "=3").find(fmt::format("key '{}'", key)), std::string::npos);
  EXPECT_NE(wrong("train.lr=[1").find("train.lr=[1"), std::string::npos);
}

// Every whole number and what it may be at least; in a file and on top of it.
TEST(Config, WholeNumbersHaveBounds) {
  const std::map<std::string, int> least = {{"train.epochs", 1},       {"train.batch", 1},
                                            {"train.warmup_steps", 0}, {"train.restart_epochs", 1},
                                            {"train.accumulate", 1},   {"train.patience", 0},
                                            {"train.threads", 0},      {"train.log_every", 1},
                                            {"evaluate.bootstrap", 0}, {"train.seed", 0}};
  const auto wrong = [](const std::string& key, const std::string& value) {
    const std::string on_top = error_of([&] { parse("", {key + "=" + value}); });
    const size_t dot = key.find('.');
    const std::string text = key.substr(0, dot) + ": {" + key.substr(dot + 1) + ": " + value + "}";
    EXPECT_EQ(error_of([&] { parse(text); }), on_top);
    return on_top;
  };
  for (const auto& [key, lowest] : least) {
    for (const char* value : {"-1", "9223372036854775808", "1e30", ".nan", "nan", ".inf", "2.5",
                              "18446744073709551616", "[1]", "x"}) {
      const std::string said = wrong(key, value);
      EXPECT_NE(said.find("setting '" + key + "'"), std::string::npos) << said;
      EXPECT_TRUE(*value == '[' || said.find(value) != std::string::npos) << said;
    }
    EXPECT_NE(wrong(key, "").find("not empty"), std::string::npos) << key;
    EXPECT_TRUE(lowest == 0 ||
                wrong(key, "0").find("is 0, but must be at least 1") != std::string::npos);
    if (key == "train.seed") continue;  // any number is as good as another
    for (const char* value : {"2147483648", "4611686018427387904"})
      EXPECT_NE(wrong(key, value).find(fmt::format("is {}, but must be at most 1", value)),
                std::string::npos);
  }
  EXPECT_EQ(wrong("train.threads", "2147483648"),
            "setting 'train.threads' is 2147483648, but must be at most 1024");
  EXPECT_EQ(parse("", {"train.seed=9223372036854775807"}).train.seed, 9223372036854775807u);
}

TEST(Config, NumbersAreFiniteAndNotNegative) {
  for (const std::string key : {"train.lr", "train.weight_decay", "train.restart_factor",
                                "train.clip", "train.checkpoint_minutes"})
    for (const std::string value : {"-1", ".nan", ".inf", "-.inf", "1e999", "nan", "", "[1]"}) {
      const std::string said = error_of([&] { parse("", {key + "=" + value}); });
      EXPECT_NE(said.find("setting '" + key + "'"), std::string::npos) << value << ": " << said;
    }
  EXPECT_ERROR(parse("", {"train.lr=.inf"}), "'train.lr' is '.inf', but must be a finite number");
}

TEST(Config, WhatAFileHidesOrOverdoesIsRefused) {
  const TemporaryDirectory temporary;
  const auto read = [&](const std::string& text) {
    write_file(temporary / "c.yaml", text);
    return read_config(temporary / "c.yaml", {});
  };
  EXPECT_ERROR(read("screen: s\n---\ntrain: {lr: 9}\n"), "c.yaml: line 2: a second document");
  EXPECT_ERROR(read("screen: s\nlabels: " + std::string(100'000, '[')), "nested deeper than 20");
  EXPECT_ERROR(read("screen: &a s\nsplit: *a\n"), "c.yaml: line 2: ");
  EXPECT_ERROR(read("screen: " + std::string(2'000'000, 's')), "c.yaml has 2000008 bytes");
  EXPECT_ERROR(read("screen: s\n? [a]\n: 3\n"), "line 2: a key must be a word");
  EXPECT_ERROR(parse("", {"labels=" + std::string(100'000, '[')}), "nested deeper than 20");
}

// What a run keeps is sealed; with the checksum deleted it is a config like any other.
TEST(Config, AChangedConfigOfARunIsRefused) {
  const TemporaryDirectory temporary;
  const fs::path path = temporary / "config.yaml";
  const std::string text = "screen: s\ntrain: {lr: 0.5}\n";
  write_file(path, sealed_yaml(text));
  EXPECT_EQ(read_config(path, {}).train.lr, 0.5);
  std::string changed = sealed_yaml(text);
  changed[changed.find("0.5")] = '7';
  write_file(path, changed);
  EXPECT_ERROR(read_config(path, {}), "config.yaml is damaged: its bytes have changed");
  write_file(path, sealed_yaml(text).substr(0, sealed_yaml(text).find("train")));
  EXPECT_ERROR(read_config(path, {}), "config.yaml is damaged");
  write_file(path, changed.substr(changed.find('\n') + 1));
  EXPECT_EQ(read_config(path, {}).train.lr, 7.5);
}

TEST(Config, AFileThatIsNotYamlIsNamedWithItsLine) {
  const TemporaryDirectory temporary;
  write_file(temporary / "c.yaml", "screen: s\ntrain: {lr: 1\n");
  EXPECT_ERROR(read_config(temporary / "c.yaml", {}), "c.yaml: line ");
  write_file(temporary / "list.yaml", "- a\n- b\n");
  EXPECT_ERROR(read_config(temporary / "list.yaml", {}), "must hold keys and values");
  EXPECT_ERROR(read_config(temporary / "none.yaml", {}), "none.yaml");
}

// Of any model and version, with no model known.
TEST(Config, SettingsByTheirFullNames) {
  constexpr const char* kText = R"(screen: /data/a
split: random
labels:
  - fitness
  - "a b"
store: ""
model:
  name: of another program
  width: 64  # a comment
train:
  lr: 1e-3
  batch: 28
  nothing:
evaluate:
  parts: [validation, test]
)";
  const std::map<std::string, std::string> expected = {{"screen", "/data/a"},
                                                       {"split", "random"},
                                                       {"labels", "[fitness, a b]"},
                                                       {"store", ""},
                                                       {"model.name", "of another program"},
                                                       {"model.width", "64"},
                                                       {"train.lr", "1e-3"},
                                                       {"train.batch", "28"},
                                                       {"train.nothing", ""},
                                                       {"evaluate.parts", "[validation, test]"}};
  EXPECT_EQ(settings_of(kText, ""), expected);
  EXPECT_TRUE(settings_of("", "").empty());
  EXPECT_EQ(settings_of("a: [{b: c}, [d]]\n? [e, f]\n: g\n", "").size(), 2u);
  EXPECT_ERROR(settings_of("a: [", "config.yaml"), "config.yaml: line 1");
}

Config parse_recording(const std::string& text, const std::vector<std::string>& settings = {}) {
  return parse_config("recording: r\n" + text, settings);
}

TEST(RecordingConfig, HasKeysOfItsOwn) {
  const Config config = parse_recording(
      "window: {lags: 9, inputs: [behavior, 'eye:5', 'robs:10@1']}\nsessions: [a, b]\n"
      "order: {by: weights, weights: [a=2, b=0.5]}");
  EXPECT_EQ(config.kind(), DataKind::recording);
  EXPECT_EQ(config.recording.path, "r");
  EXPECT_EQ(config.split, "trials");
  EXPECT_EQ(config.train.loss, "poisson");
  const WindowSettings& windows = config.recording.windows;
  EXPECT_EQ(windows.stimulus.lags, 9u);
  EXPECT_EQ(windows.sessions, (std::vector<std::string>{"a", "b"}));
  ASSERT_EQ(windows.inputs.size(), 3u);
  EXPECT_EQ(windows.inputs[1].lags, 5u);
  EXPECT_EQ(windows.inputs[2].first, 1u);
  for (const LaggedField& field : windows.inputs)
    EXPECT_EQ(to_text(lagged_field_from_text(to_text(field))), to_text(field));
  EXPECT_EQ(config.recording.weights[1], std::pair(std::string("b"), 0.5));
  EXPECT_EQ(to_yaml(parse_config(to_yaml(config), {})), to_yaml(config));
  EXPECT_EQ(parse("").kind(), DataKind::screen);
  EXPECT_EQ(parse_config("", {"recording=r"}).kind(), DataKind::recording);
}

TEST(RecordingConfig, WhatCannotBeIsNamed) {
  EXPECT_ERROR(parse_recording("window: {lag: 3}"), "did you mean 'window.lags'?");
  EXPECT_ERROR(parse_recording("graph: kept"), "there is no setting 'graph'");
  EXPECT_ERROR(parse_recording("train: {loss: mse}"), "there is no setting 'train.loss'");
  EXPECT_ERROR(parse("window: {lags: 3}"), "there is no setting 'window'");
  EXPECT_ERROR(parse_recording("screen: s"), "both a screen and a recording");
  EXPECT_ERROR(parse_recording("model: {name: mlp}"), "there is no model 'mlp'");
  EXPECT_ERROR(parse_recording("window: {inputs: ['eye:x']}"), "FIELD:LAGS@FIRST");
  EXPECT_ERROR(parse_recording("order: {weights: [a=1]}"), "set order.by=weights");
  EXPECT_ERROR(parse_recording("order: {by: weights, weights: [a=0]}"), "a share above 0");
  EXPECT_ERROR(parse_recording("train: {freeze: core}"), "train.weights=RUN");
  EXPECT_ERROR(parse_recording("train: {batch: auto}"), "train.batch");
}

TEST(RecordingConfig, PlacesAreTakenOver) {
  Config config = parse_recording("");
  make_paths_absolute(config);
  EXPECT_EQ(config.recording.path, fs::current_path() / "r");
  take_places(config, parse_config("{recording: elsewhere, store: s}", {}));
  const Config again = parse_config(to_yaml(config), {});
  EXPECT_EQ(again.recording.path, "elsewhere");
  EXPECT_EQ(again.store, "s");
}

}  // namespace
}  // namespace lacuna
