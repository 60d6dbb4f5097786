#include "lacuna/ops/masks/masks.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "lacuna/core/error.h"
#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"
#include "lacuna/graph/generate_graph.h"
#include "lacuna/ops/masks/plain_masks.h"
#include "lacuna/ops/testing.h"

namespace lacuna {
namespace {

using testing::random_removed;
using testing::RandomRemoved;

void expect_records(const HeteroGraph& graph, const MaskLayout& layout,
                    const RandomRemoved& removed, const uint8_t* records) {
  const PlainMasks plain(graph);
  for (size_t b = 0; b + 1 < removed.ptr.size(); ++b) {
    const std::vector<uint32_t> genes(removed.index.begin() + removed.ptr[b],
                                      removed.index.begin() + removed.ptr[b + 1]);
    const auto expected = plain.record(genes, layout);
    const uint8_t* record = records + b * layout.stride();
    ASSERT_EQ(std::vector<uint8_t>(record, record + layout.stride()), expected) << "sample " << b;
  }
}

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

  uint64_t seed = test_seed();
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

TEST(Masks, SectionsStandInOrderAtMultiplesOf64) {
  const Fixture f;
  for (const MaskForm form : {MaskForm::u8, MaskForm::bits, MaskForm::bf16}) {
    const MaskLayout layout(f.rules, form);
    ASSERT_EQ(layout.sections().size(), f.rules.sections().size());
    uint64_t end = 0;
    for (size_t s = 0; s < layout.sections().size(); ++s) {
      const auto& section = layout.sections()[s];
      EXPECT_EQ(section.name, f.rules.sections()[s].name);
      EXPECT_EQ(section.count, f.rules.sections()[s].count);
      EXPECT_EQ(section.offset % 64, 0u);
      EXPECT_GE(section.offset, end);
      EXPECT_LT(section.offset, end + 64);
      end = section.offset + section.bytes;
    }
    EXPECT_EQ(layout.stride() % 64, 0u);
    EXPECT_GE(layout.stride(), end);
    EXPECT_EQ(layout.sections()[0].name, "gene");
    const uint64_t genes = f.graph.genes().size();
    EXPECT_EQ(layout.sections()[0].bytes, form == MaskForm::u8     ? genes
                                          : form == MaskForm::bits ? (genes + 7) / 8
                                                                   : 2 * genes);
    EXPECT_EQ(mask_form_from_name(name(form)), form);
  }
}

TEST(Masks, RecordsFollowTheRules) {
  const Fixture f;
  SCOPED_TRACE(f.seed);
  const auto removed = random_removed(f.seed, f.graph.genes().size(), 9, 4);
  for (const int threads : {1, 3}) {
    std::vector<uint8_t> records(9 * f.layout.stride(), 0xaa);
    write_masks(f.layout, f.table, removed.view(), records.data(), threads);
    expect_records(f.graph, f.layout, removed, records.data());
  }
}

TEST(Masks, ArenaGivesTheRecordsOfEveryBatch) {
  const Fixture f;
  SCOPED_TRACE(f.seed);
  MaskArena arena(f.layout, f.table, 8);
  for (uint64_t round = 0; round < 20; ++round) {
    const int64_t batch = int64_t(round * 5 % 9);
    const auto removed = random_removed(f.seed + round, f.graph.genes().size(), batch, 5);
    expect_records(f.graph, f.layout, removed, arena.update(removed.view()));
    if (HasFatalFailure()) return;
  }
  RandomRemoved everything;
  std::vector<int32_t> genes(f.graph.genes().size());
  for (size_t i = 0; i < genes.size(); ++i) genes[i] = int32_t(i);
  everything.add(genes);
  expect_records(f.graph, f.layout, everything, arena.update(everything.view()));
  RandomRemoved nothing;
  nothing.add({});
  expect_records(f.graph, f.layout, nothing, arena.update(nothing.view()));
}

TEST(Masks, BadInputIsNamed) {
  const Fixture f;
  MaskArena arena(f.layout, f.table, 2);
  RandomRemoved one;
  one.add(std::vector<int32_t>{1});
  arena.update(one.view());
  const auto expect_error = [&](const RandomRemoved& removed, const std::string& part) {
    std::vector<uint8_t> records(size_t(removed.view().batch()) * f.layout.stride());
    const auto says = [&](const std::function<void()>& call) {
      try {
        call();
        return std::string("nothing was thrown");
      } catch (const Error& error) {
        return std::string(error.what());
      }
    };
    const std::string said = says([&] { arena.update(removed.view()); });
    EXPECT_NE(said.find(part), std::string::npos) << said;
    expect_records(f.graph, f.layout, one, arena.records());  // nothing was changed
    if (part.find("arena") != std::string::npos) return;
    EXPECT_EQ(says([&] { write_masks(f.layout, f.table, removed.view(), records.data()); }), said);
  };
  RandomRemoved bad;
  bad.add(std::vector<int32_t>{0, 40});
  expect_error(bad, "removed[1] = 40 (sample 0)");
  RandomRemoved many;
  for (int i = 0; i < 3; ++i) many.add({});
  expect_error(many, "3 samples does not fit a mask arena of 2");
  EXPECT_THROW(MaskTable(f.rules, MaskLayout(f.rules, MaskForm::bits)), Error);
  EXPECT_THROW(f.layout.section("gene.love.gene"), Error);
}

// A graph of genes alone has the same table from its plan as from the rules.
TEST(Masks, TableOfAPlanIsThatOfTheRules) {
  const Fixture f;
  SCOPED_TRACE(f.seed);
  HeteroGraph genes;
  genes.add_nodes("gene", f.graph.genes().names);
  std::vector<std::vector<uint32_t>> ends;
  for (const EdgeType* edges : f.graph.gene_edges()) {
    genes.add_edges("gene", edges->name, "gene", edges->edges);
    ends.push_back(edges->sources());
    ends.push_back(edges->targets());
  }
  std::vector<EdgeList> lists;
  for (size_t t = 0; t < ends.size(); t += 2) lists.push_back({ends[t], ends[t + 1]});
  const GraphPlan plan = GraphPlan::make(genes.genes().size(), lists);

  const RemovalRules rules(genes);
  const MaskLayout layout(rules, MaskForm::u8);
  std::vector<int64_t> counts;
  for (const auto& section : layout.sections()) counts.push_back(int64_t(section.count));
  const MaskTable expected(rules, layout), table(plan, MaskLayout(counts, MaskForm::u8));
  EXPECT_EQ(MaskLayout(counts, MaskForm::u8).stride(), layout.stride());
  EXPECT_EQ(table.ptr, expected.ptr);
  EXPECT_EQ(table.place, expected.place);
}

// ---- every form

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
  Random random(test_seed());
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
