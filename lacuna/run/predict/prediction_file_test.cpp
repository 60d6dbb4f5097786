#include "lacuna/run/predict/prediction_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "lacuna/core/testing.h"
#include "lacuna/screen/candidates.h"

namespace lacuna {
namespace {

const Names& genes() {
  static const Names names({"YAL001C", "B,\"1\"", "HO"});
  return names;
}

TEST(PredictionFile, Csv) {
  const TemporaryDirectory folder;
  const fs::path path = folder / "p.csv";
  const auto file = create_prediction_file(path, {genes(), {"fitness", "a,b"}, 4, 2});
  file->add(std::vector<uint32_t>{2, 0}, std::vector<float>{0.1f, -2});
  file->add(std::vector<uint32_t>{1}, std::vector<float>{1e-20f, 1.f / 3});
  file->add({}, std::vector<float>{std::nanf(""), 1024.5f});
  EXPECT_FALSE(fs::exists(path));
  file->close();
  EXPECT_EQ(read_text(path),
            "gene_1,gene_2,fitness,\"a,b\"\n"
            "HO,YAL001C,0.1,-2\n"
            "\"B,\"\"1\"\"\",,1e-20,0.33333334\n"
            ",,nan,1024.5\n");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
}

TEST(PredictionFile, StandardNamesStandBehindTheGenes) {
  const TemporaryDirectory folder;
  Names called({"YAL001C", "YAL002W", "HO"});
  called.add_alias("VPS8", 1);
  const auto file = create_prediction_file(folder / "p.csv", {called, {"name_1"}, 2, 2});
  file->add(std::vector<uint32_t>{1, 2}, std::vector<float>{0.5f});
  file->add(std::vector<uint32_t>{1}, std::vector<float>{1});
  file->close();
  EXPECT_EQ(read_text(folder / "p.csv"),
            "gene_1,gene_2,name_1,name_2,name_1\n"
            "YAL002W,HO,VPS8,HO,0.5\n"
            "YAL002W,,VPS8,,1\n");
  const auto labels = [](std::vector<std::string> head) { return predicted_labels(head); };
  using Words = std::vector<std::string>;
  EXPECT_EQ(labels({"gene_1", "gene_2", "name_1", "name_2", "name_1"}), Words{"name_1"});
  EXPECT_EQ(labels({"gene_1", "gene_2", "name_1"}), Words{"name_1"});
  EXPECT_EQ(labels({"gene_1", "y", "z"}), (Words{"y", "z"}));
}

TEST(PredictionFile, ACsvIsAListOfItsSamples) {
  const TemporaryDirectory folder;
  const std::vector<std::vector<uint32_t>> samples = {{2, 0}, {}, {1}, {0, 1, 2}};
  const auto reads_back = [&](std::span<const std::vector<uint32_t>> some, uint32_t widest) {
    const auto file =
        create_prediction_file(folder / "p.csv", {genes(), {"a,b"}, some.size(), widest});
    for (const auto& sample : some) file->add(sample, std::vector<float>{0.5f});
    file->close();
    const auto read = listed_samples(folder / "p.csv", genes());
    std::vector<std::vector<uint32_t>> found(read->size());
    for (auto& sample : found) EXPECT_TRUE(read->next(sample));
    EXPECT_TRUE(std::ranges::equal(found, some));
  };
  reads_back(samples, 3);
  reads_back({{samples[1]}}, 0);  // the wild type alone
}

// Names that spreadsheets take for formulas; numbers are never touched.
TEST(PredictionFile, NoNameIsAFormula) {
  const TemporaryDirectory folder;
  const Names odd({"=1+2", "'=1+2", "-omega"});
  const auto file = create_prediction_file(folder / "p.csv", {odd, {"@label", "-y"}, 2, 2});
  file->add(std::vector<uint32_t>{0, 1}, std::vector<float>{-1, -0.5f});
  file->add(std::vector<uint32_t>{2}, std::vector<float>{2, -3e-9f});
  file->close();
  EXPECT_EQ(read_text(folder / "p.csv"),
            "gene_1,gene_2,'@label,'-y\n'=1+2,''=1+2,-1,-0.5\n'-omega,,2,-3e-09\n");
  const auto read = listed_samples(folder / "p.csv", odd);
  std::vector<uint32_t> sample;
  ASSERT_TRUE(read->next(sample));
  EXPECT_EQ(sample, (std::vector<uint32_t>{0, 1}));
  ASSERT_TRUE(read->next(sample));
  EXPECT_EQ(sample, (std::vector<uint32_t>{2}));
}

TEST(PredictionFile, NothingIsLeftWithoutClose) {
  const TemporaryDirectory folder;
  for (const char* name : {"p.csv", "p.npz"})
    create_prediction_file(folder / name, {genes(), {"fitness"}, 1, 2})
        ->add(std::vector<uint32_t>{0, 1}, std::vector<float>{1});
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(PredictionFile, RefusesOtherEndings) {
  EXPECT_ERROR(check_prediction_path("out.txt"), "ends in .csv or .npz, not 'out.txt'");
  EXPECT_ERROR(check_prediction_path("out"), "ends in .csv or .npz");
}

}  // namespace
}  // namespace lacuna
