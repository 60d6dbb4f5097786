#include "lacuna/ops/masks/mask_form.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"
#include "lacuna/graph/generate_graph.h"

namespace lacuna {
namespace {

constexpr MaskForm kForms[] = {MaskForm::u8, MaskForm::bits, MaskForm::bf16, MaskForm::positions};

struct Fixture {
  explicit Fixture(GraphSize size = GraphSize::tiny) : graph(generate_graph(size, seed)) {}

  // Nought to `most` genes, some of them twice.
  std::vector<uint32_t> random_genes(Random& random, uint64_t most) const {
    std::vector<uint32_t> genes(random.below(most + 1));
    for (auto& gene : genes) gene = uint32_t(random.below(graph.genes().size()));
    if (genes.size() > 1 && random.below(3) == 0) genes.back() = genes.front();
    return genes;
  }

  // By the function that the masks' own tests check against the rules' words.
  std::vector<uint8_t> u8_record(const std::vector<uint32_t>& genes) const {
    const std::vector<int32_t> index(genes.begin(), genes.end()), ptr = {0, int32_t(genes.size())};
    std::vector<uint8_t> record(layout.stride(), 0xaa);
    write_masks(layout, table, {index, ptr}, record.data(), 1);
    return record;
  }

  uint64_t seed = fresh_seed();
  HeteroGraph graph;
  RemovalRules rules = RemovalRules(graph);
  MaskLayout layout = MaskLayout(rules, MaskForm::u8);
  MaskTable table = MaskTable(rules, layout);
};

void push_varint(std::vector<uint8_t>& out, uint64_t value) {
  do {
    out.push_back(uint8_t(value % 128 + (value >= 128 ? 128 : 0)));
    value /= 128;
  } while (value > 0);
}

// A u8 record in another form, element by element, from the header's words.
std::vector<uint8_t> in_form(MaskForm form, const MaskLayout& layout,
                             const std::vector<uint8_t>& u8) {
  std::vector<uint8_t> out;
  for (const auto& section : layout.sections()) {
    const auto kept = [&](uint64_t i) { return u8[section.offset + i] != 0; };
    if (form == MaskForm::positions) {
      std::vector<uint64_t> gone;
      for (uint64_t i = 0; i < section.count; ++i)
        if (!kept(i)) gone.push_back(i);
      push_varint(out, gone.size());
      for (size_t k = 0; k < gone.size(); ++k)
        push_varint(out, k == 0 ? gone[0] : gone[k] - gone[k - 1] - 1);
      continue;
    }
    const size_t start = out.size();
    for (uint64_t i = 0; i < section.count; ++i) {
      if (form == MaskForm::u8) out.push_back(kept(i));
      if (form == MaskForm::bf16) {
        out.push_back(kept(i) ? 0x80 : 0);  // 1.0 is 3f80, little endian
        out.push_back(kept(i) ? 0x3f : 0);
      }
      if (form == MaskForm::bits) {
        if (i % 8 == 0) out.push_back(0);
        out.back() = uint8_t(out.back() + (kept(i) ? 1 << i % 8 : 0));
      }
    }
    while ((out.size() - start) % 64 != 0) out.push_back(0);
  }
  return out;
}

std::vector<uint8_t> as_u8(std::span<const std::byte> bytes) {
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  return {data, data + bytes.size()};
}

TEST(MaskForm, RecordsOfAllFormsHoldAndExpandToTheSameMasks) {
  const Fixture f;
  SCOPED_TRACE(f.seed);
  Random random(f.seed);
  for (const MaskForm form : kForms) {
    SCOPED_TRACE(name(form));
    EXPECT_EQ(mask_form_from_name(name(form)), form);
    const MaskEncoder encoder(f.rules, form);
    for (int round = 0; round < 30; ++round) {
      const auto genes = f.random_genes(random, round == 0 ? 0 : 6);
      const auto expected = f.u8_record(genes);
      std::vector<std::byte> bytes(random.below(9));  // append() leaves what is there
      const size_t before = bytes.size();
      encoder.append(7, genes, bytes);
      const auto record = std::span(bytes).subspan(before);
      ASSERT_EQ(as_u8(record), in_form(form, f.layout, expected));
      std::vector<uint8_t> expanded(f.layout.stride(), 0xaa);
      expand_masks(f.layout, form, record, expanded.data());
      ASSERT_EQ(expanded, expected);
      EXPECT_EQ(record_bytes(f.layout, form), encoder.record_bytes());
      if (form == MaskForm::positions) continue;
      EXPECT_EQ(record.size(), MaskLayout(f.rules, form).stride());
      std::vector<std::byte> written(encoder.record_bytes(), std::byte(0xaa));
      encoder.write(7, genes, written.data());
      EXPECT_EQ(as_u8(written), as_u8(record));
    }
    std::vector<std::byte> none;
    const std::vector<uint32_t> wrong = {0, uint32_t(f.graph.genes().size())};
    EXPECT_ERROR(encoder.append(7, wrong, none), "sample 7");
    EXPECT_TRUE(none.empty());
  }
}

// A section that ends inside a byte, one of whole bytes, one of none.
TEST(MaskForm, OddSizesExpand) {
  const std::vector<int64_t> counts = {13, 64, 0, 1, 511};
  const MaskLayout layout(counts, MaskForm::u8);
  Random random(fresh_seed());
  std::vector<uint8_t> u8(layout.stride(), 0);
  for (const auto& section : layout.sections())
    for (uint64_t i = 0; i < section.count; ++i) u8[section.offset + i] = uint8_t(random.below(2));
  for (const MaskForm form : kForms) {
    const auto record = in_form(form, layout, u8);
    std::vector<uint8_t> expanded(layout.stride(), 0xaa);
    expand_masks(layout, form, std::as_bytes(std::span(record)), expanded.data());
    EXPECT_EQ(expanded, u8) << name(form);
  }
}

TEST(MaskForm, RecordsOfAnotherSizeAreRefused) {
  const Fixture f;
  std::vector<uint8_t> out(f.layout.stride());
  for (const MaskForm form : {MaskForm::u8, MaskForm::bits, MaskForm::bf16}) {
    const uint64_t right = record_bytes(f.layout, form);
    for (const uint64_t size : {uint64_t(0), right - 1, right + 1, 2 * right}) {
      const std::vector<std::byte> record(size);
      EXPECT_ERROR(expand_masks(f.layout, form, record, out.data()), "expected");
    }
  }
}

TEST(MaskForm, BadPositionsAreRefused) {
  const std::vector<int64_t> counts = {10, 200};
  const MaskLayout layout(counts, MaskForm::u8);
  std::vector<uint8_t> out(layout.stride());
  const auto expand = [&](std::vector<uint8_t> record) {
    expand_masks(layout, MaskForm::positions, std::as_bytes(std::span(record)), out.data());
  };
  EXPECT_NO_THROW(expand({2, 0, 8, 1, 0xc7, 0x01}));  // 0 and 9 of the first, 199 of the second
  EXPECT_EQ(std::count(out.begin(), out.begin() + 10, 1), 8);
  EXPECT_EQ(out[layout.sections()[1].offset + 199], 0);
  EXPECT_ERROR(expand({}), "ends inside a number");
  EXPECT_ERROR(expand({0}), "ends inside a number");
  EXPECT_ERROR(expand({0, 1, 0x80}), "ends inside a number");
  EXPECT_ERROR(expand({11, 0, 0}), "more than there is");
  EXPECT_ERROR(expand({1, 10, 0}), "not there");
  EXPECT_ERROR(expand({2, 0, 9, 0}), "not there");
  EXPECT_ERROR(expand({0, 1, 0xc8, 0x01}), "not there");
  EXPECT_ERROR(expand({0, 1, 0xff, 0xff, 0xff, 0xff, 0xff}), "more than five bytes");
  EXPECT_ERROR(expand({0, 0, 0}), "goes on");
}

// Damage gives an Error or masks, never a byte outside them; sanitizers watch the reading.
TEST(MaskForm, DamagedPositionsNeverWriteOutside) {
  const Fixture f;
  SCOPED_TRACE(f.seed);
  Random random(f.seed);
  const MaskEncoder encoder(f.rules, MaskForm::positions);
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::byte> record;
    encoder.append(0, f.random_genes(random, 4), record);
    for (uint64_t flips = 1 + random.below(3); flips > 0; --flips)
      record[random.below(record.size())] ^= std::byte(1u << random.below(8));
    if (random.below(3) == 0) record.resize(random.below(record.size()));
    const std::vector<std::byte> exact(record.begin(), record.end());
    std::vector<uint8_t> out(f.layout.stride() + 64, 0xaa);
    try {
      expand_masks(f.layout, MaskForm::positions, exact, out.data());
      for (uint64_t i = 0; i < f.layout.stride(); ++i) ASSERT_LE(out[i], 1);
    } catch (const Error&) {
      ++refused;
    }
    for (uint64_t i = f.layout.stride(); i < out.size(); ++i) ASSERT_EQ(out[i], 0xaa);
  }
  EXPECT_GT(refused, 500);
}

TEST(MaskForm, SizesAtYeastSize) {
  const Fixture f(GraphSize::yeast);
  SCOPED_TRACE(f.seed);
  const double ratio = double(f.layout.stride()) / double(record_bytes(f.layout, MaskForm::bits));
  EXPECT_GT(ratio, 8 * 0.97);
  EXPECT_LT(ratio, 8 * 1.03);
  Random random(f.seed);
  const MaskEncoder encoder(f.rules, MaskForm::positions);
  std::vector<std::byte> records;
  constexpr uint64_t kSamples = 2000;
  for (uint64_t s = 0; s < kSamples; ++s) {
    std::vector<uint32_t> genes(3);
    for (auto& gene : genes) gene = uint32_t(random.below(f.graph.genes().size()));
    encoder.append(s, genes, records);
  }
  EXPECT_LE(records.size() / kSamples, 8176u);
}

}  // namespace
}  // namespace lacuna
