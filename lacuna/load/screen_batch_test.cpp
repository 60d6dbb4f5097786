#include "lacuna/screen/screen_batch.h"

#include <gtest/gtest.h>

#include <bit>
#include <string>

#include "lacuna/core/error.h"
#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"
#include "lacuna/load/loader.h"

namespace lacuna {

uint64_t allocations();  // of this program, so far: allocations_test.cpp
bool counts_allocations();

namespace {

constexpr uint32_t kGenes = 300;

// What a screen says of its samples, in the plainest form.
struct Truth {
  std::vector<std::vector<uint32_t>> removed;  // [S][...]
  std::vector<std::vector<float>> labels;      // [S][L]
  std::vector<uint8_t> plate;                  // [S], and so on
  std::vector<int64_t> key;
  std::vector<double> sd;
  std::vector<uint16_t> pair;
};

Truth random_truth(uint64_t samples, uint64_t labels, Random& random) {
  Truth truth;
  for (uint64_t s = 0; s < samples; ++s) {
    std::vector<uint32_t> removed(random.below(5));
    for (uint32_t& gene : removed) gene = uint32_t(random.below(kGenes));
    truth.removed.push_back(removed);
    std::vector<float> label(labels);
    for (float& value : label) value = random.below(9) == 0 ? NAN : float(random.normal());
    truth.labels.push_back(label);
    truth.plate.push_back(uint8_t(random.next()));
    truth.key.push_back(int64_t(random.next()));
    truth.sd.push_back(random.normal());
    truth.pair.push_back(uint16_t(random.next()));
  }
  return truth;
}

template <class Ptr, class Index>
Samples samples_from(const Truth& truth) {
  std::vector<Ptr> ptr = {0};
  std::vector<Index> removed;
  std::vector<float> labels;
  for (const auto& genes : truth.removed) {
    removed.insert(removed.end(), genes.begin(), genes.end());
    ptr.push_back(Ptr(removed.size()));
  }
  for (const auto& row : truth.labels) labels.insert(labels.end(), row.begin(), row.end());
  Samples samples;
  samples.removed = Array::from(removed);
  samples.ptr = Array::from(ptr);
  const uint64_t width = truth.labels[0].size();
  samples.labels = Array::from(
      labels, width == 1 ? Shape{truth.labels.size()} : Shape{truth.labels.size(), width});
  for (uint64_t l = 0; l < width; ++l) samples.label_names.push_back("label" + std::to_string(l));
  samples.columns = {{"plate", Array::from(truth.plate), {}},
                     {"key", Array::from(truth.key), {}},
                     {"sd", Array::from(truth.sd), {}},
                     {"pair", Array::from(truth.pair), {}}};
  return samples;
}

void expect_batch(const ScreenBatch& batch, const Truth& truth,
                  const std::vector<uint64_t>& samples) {
  ASSERT_EQ(batch.size(), samples.size());
  ASSERT_EQ(batch.ptr().size(), samples.size() + 1);
  ASSERT_EQ(batch.ptr()[0], 0);
  ASSERT_EQ(batch.columns().size(), 3u);
  const auto keys = batch.columns()[0].as<int64_t>();
  const auto plates = batch.columns()[1].as<uint8_t>();
  const auto pairs = batch.columns()[2].as<uint16_t>();
  uint64_t at = 0;
  for (uint64_t b = 0; b < samples.size(); ++b) {
    const uint64_t s = samples[b];
    EXPECT_EQ(batch.samples()[b], s);
    for (const uint32_t gene : truth.removed[s]) EXPECT_EQ(batch.removed()[at++], int32_t(gene));
    ASSERT_EQ(batch.ptr()[b + 1], int32_t(at));
    const uint64_t width = batch.label_count();
    ASSERT_EQ(width, truth.labels[s].size());
    for (uint64_t l = 0; l < width; ++l) {
      EXPECT_EQ(std::bit_cast<uint32_t>(batch.labels()[b * width + l]),
                std::bit_cast<uint32_t>(truth.labels[s][l]));
    }
    EXPECT_EQ(keys[b], truth.key[s]);
    EXPECT_EQ(plates[b], truth.plate[s]);
    EXPECT_EQ(pairs[b], truth.pair[s]);
  }
  EXPECT_EQ(batch.removed().size(), at);
  EXPECT_EQ(batch.bytes(), 4 * at + 4 * (samples.size() + 1) +
                               samples.size() * (4 * batch.label_count() + 8 + 1 + 2));
}

TEST(ScreenBatch, HoldsWhatTheScreenSays) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  for (int i = 0; i < 40; ++i) {
    const Truth truth = random_truth(200, 1 + i % 3, random);
    const Samples samples = i % 4 == 0   ? samples_from<uint32_t, uint16_t>(truth)
                            : i % 4 == 1 ? samples_from<uint64_t, uint16_t>(truth)
                            : i % 4 == 2 ? samples_from<uint32_t, uint32_t>(truth)
                                         : samples_from<uint64_t, uint32_t>(truth);
    ScreenSourceOptions options = {.columns = {"key", "plate", "pair"}};
    if (i % 2 == 0) {
      options.selection.emplace();
      for (uint32_t s = 0; s < 200; ++s) {
        if (random.below(2) == 0) options.selection->push_back(s);
      }
    }
    const ScreenSource source(samples, kGenes, options);
    ScreenBatch batch;  // used again and again, with larger and smaller contents
    for (const uint64_t size : {5, 28, 0, 1, 100, 3}) {
      std::vector<uint64_t> places(size), numbers(size);
      for (uint64_t b = 0; b < size; ++b) {
        places[b] = random.below(source.size());
        numbers[b] = options.selection ? (*options.selection)[places[b]] : places[b];
      }
      source.fill(places, batch);
      expect_batch(batch, truth, numbers);
    }
  }
}

TEST(ScreenBatch, AnEpochVisitsThePartOnce) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  const Truth truth = random_truth(500, 1, random);
  std::vector<uint8_t> parts(500);
  for (uint8_t& part : parts) part = uint8_t(random.below(3) == 2 ? 255 : random.below(3));
  const Split split = {"mine", Array::from(parts), {}};
  const ScreenSource source(
      samples_from<uint32_t, uint16_t>(truth), kGenes,
      {.selection = samples_in(split, Part::test), .columns = {"key", "plate", "pair"}});
  Loader loader(source, {{.global_batch = 28, .seed = seed}, 2, 8});
  std::vector<int> visits(500);
  while (const auto batch = loader.next()) {
    const std::vector<uint64_t> numbers(batch->samples().begin(), batch->samples().end());
    expect_batch(*batch, truth, numbers);
    for (const uint64_t sample : numbers) ++visits[sample];
  }
  for (uint64_t s = 0; s < 500; ++s) EXPECT_EQ(visits[s], parts[s] == uint8_t(Part::test));
}

TEST(ScreenBatch, AlwaysHasAPtr) {
  EXPECT_EQ(ScreenBatch().ptr().size(), 1u);
  Random random(1);
  const Truth truth = random_truth(10, 1, random);
  const ScreenSource source(samples_from<uint32_t, uint16_t>(truth), kGenes,
                            {.columns = {"key", "plate", "pair"}});
  ScreenBatch batch;
  source.fill(std::vector<uint64_t>{1, 2, 3}, batch);
  const ScreenBatch moved = std::move(batch);
  expect_batch(moved, truth, {1, 2, 3});
  EXPECT_EQ(batch.ptr().size(), 4u);  // NOLINT: that it still has one is the point
  source.fill({}, batch);
  EXPECT_EQ(batch.ptr().size(), 1u);
  EXPECT_EQ(batch.ptr()[0], 0);
}

TEST(ScreenBatch, AnIndexOutOfRangeNamesItsSample) {
  Random random(1);
  Truth truth = random_truth(10, 1, random);
  truth.removed[7] = {3, kGenes, 5};
  const ScreenSource source(samples_from<uint32_t, uint16_t>(truth), kGenes);
  ScreenBatch batch;
  EXPECT_NO_THROW(source.fill(std::vector<uint64_t>{0, 1, 6, 8, 9}, batch));
  const std::string message = error_of([&] { source.fill(std::vector<uint64_t>{0, 7, 1}, batch); });
  EXPECT_EQ(message.rfind("sample 7 removes gene index 300, but the screen has 300 genes", 0), 0u)
      << message;
  // The same through a loader's worker.
  Loader loader(source, {{.global_batch = 2, .shuffled = false}});
  for (int i = 0; i < 3; ++i) loader.next();
  EXPECT_EQ(error_of([&] { loader.next(); }), message);
}

TEST(ScreenBatch, ADamagedPtrNamesItsSample) {
  Samples samples;
  samples.removed = Array::from(std::vector<uint16_t>{1, 2, 3});
  samples.ptr = Array::from(std::vector<uint32_t>{0, 2, 1, 3, 4000000000u});
  samples.labels = Array::from(std::vector<float>(4));
  samples.label_names = {"fitness"};
  const ScreenSource source(samples, kGenes);
  ScreenBatch batch;
  EXPECT_NO_THROW(source.fill(std::vector<uint64_t>{0, 2}, batch));
  for (const uint64_t bad : {1, 3}) {
    const std::string message = error_of([&] {
      source.fill(std::vector<uint64_t>{0, bad}, batch);
    });
    EXPECT_EQ(message.rfind("sample " + std::to_string(bad) + ":", 0), 0u) << message;
  }
}

TEST(ScreenBatch, WrongCallsAreNamed) {
  Random random(1);
  const Samples samples = samples_from<uint32_t, uint16_t>(random_truth(10, 2, random));
  const auto message = [&](const Samples& s, ScreenSourceOptions options) {
    return error_of([&] { ScreenSource(s, kGenes, options); });
  };
  EXPECT_EQ(message(samples, {.columns = {"sdd"}}),
            "no column 'sdd'; there are: plate, key, sd, pair");
  EXPECT_EQ(message(samples, {.selection = {{3, 10, 2}}}),
            "sample 10 was chosen, but the screen has 10");
  Samples cut = samples;
  cut.labels = Array::from(std::vector<float>(19));
  EXPECT_EQ(message(cut, {}), "labels should be 10 x 2 of type f32");
  cut = samples;
  cut.columns[2].values = Array::from(std::vector<double>(9));
  EXPECT_NO_THROW(ScreenSource(cut, kGenes, {}));  // not chosen
  EXPECT_EQ(message(cut, {.columns = {"sd"}}), "column 'sd' has 9 values for 10 samples");
  cut = samples;
  cut.ptr = Array::from(std::vector<uint32_t>());
  EXPECT_THROW(ScreenSource(cut, kGenes, {}), Error);

  ScreenBatch batch;
  ScreenSource(samples, kGenes, {.columns = {"sd"}}).fill(std::vector<uint64_t>{1}, batch);
  EXPECT_THROW(batch.columns()[0].as<float>(), Error);
}

TEST(ScreenBatch, NoAllocationInSteadyState) {
  if (!counts_allocations()) GTEST_SKIP() << "AddressSanitizer has its own operator new";
  Random random(1);
  Truth truth = random_truth(2000, 2, random);
  for (auto& removed : truth.removed) removed.resize(3);
  for (const int threads : {0, 2}) {
    Loader loader(
        ScreenSource(samples_from<uint32_t, uint16_t>(truth), kGenes, {.columns = {"sd", "plate"}}),
        {{.global_batch = 28, .seed = 1}, threads, 16});
    for (int i = 0; i < 100; ++i) loader.next();
    const uint64_t before = allocations();
    for (int i = 0; i < 2000; ++i) loader.next();
    EXPECT_EQ(allocations() - before, 0u) << "threads " << threads;
  }
}

}  // namespace
}  // namespace lacuna
