#include "lacuna/screen/import/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <zlib.h>

#include <cmath>

#include "lacuna/core/error.h"
#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Rows = std::vector<std::vector<std::string>>;

class Table : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("lacuna_table_test_" + hex(test_seed()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path write(const std::string& name, std::string_view text) {
    FileWriter file(folder_ / name);
    file.write(text);
    file.close();
    return folder_ / name;
  }
  fs::path write_gzip(const std::string& name, const std::string& text) {
    const fs::path path = folder_ / name;
    gzFile file = gzopen(path.c_str(), "wb");
    gzwrite(file, text.data(), unsigned(text.size()));
    gzclose(file);
    return path;
  }
  fs::path folder_;
};

Rows read_all(const TableSource& source) {
  TableReader table(source);
  Rows rows = {table.header()};
  while (table.next()) rows.emplace_back(table.cells().begin(), table.cells().end());
  return rows;
}

// What a function throws.
template <class F>
std::string words_of(F f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST_F(Table, ReadsCellsAndLines) {
  TableReader table({write("a.tsv", "\xef\xbb\xbfone\ttwo\r\n1\t\"2\r\n\n3\t\n")});
  EXPECT_THAT(table.header(), ElementsAre("one", "two"));
  EXPECT_EQ(table.column("two"), 1u);
  ASSERT_TRUE(table.next());
  EXPECT_THAT(table.cells(), ElementsAre("1", "\"2"));  // no quotes in a TSV
  EXPECT_EQ(table.line(), 2u);
  ASSERT_TRUE(table.next());
  EXPECT_THAT(table.cells(), ElementsAre("3", ""));
  EXPECT_EQ(table.line(), 4u);
  EXPECT_FALSE(table.next());
  EXPECT_FALSE(table.next());
}

TEST_F(Table, LastLineNeedsNoEnd) {
  EXPECT_EQ(read_all({write("a.csv", "a,b\n1,2")}), (Rows{{"a", "b"}, {"1", "2"}}));
  EXPECT_EQ(read_all({write("b.csv", "a,b")}), (Rows{{"a", "b"}}));
}

TEST_F(Table, QuotedCells) {
  const auto path = write("a.csv", "a,b\n\"x, \"\"y\"\"\nz\",2\n\"\",\"q\"\n");
  TableReader table({path});
  ASSERT_TRUE(table.next());
  EXPECT_THAT(table.cells(), ElementsAre("x, \"y\"\nz", "2"));
  ASSERT_TRUE(table.next());
  EXPECT_THAT(table.cells(), ElementsAre("", "q"));
  EXPECT_EQ(table.line(), 4u);  // the row before took two lines
}

TEST_F(Table, OtherSeparators) {
  const auto path = write("links.data", "a b\n1 2\n");
  EXPECT_THAT(words_of([&] { read_all({path}); }), HasSubstr("say separator="));
  EXPECT_EQ(read_all({path, ' '}), (Rows{{"a", "b"}, {"1", "2"}}));
}

TEST_F(Table, GzipIsTheSameTable) {
  const std::string text = "a,b\n1,\"2\n\"\n";
  EXPECT_EQ(read_all({write_gzip("a.csv.gz", text)}), read_all({write("a.csv", text)}));
}

// Random tables, cells of any length and content, written by the book and read back.
TEST_F(Table, RandomTablesComeBack) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  const std::string letters = "ab\",\n\r ;\t'";
  for (int round = 0; round < 20; ++round) {
    const bool is_csv = round % 2 == 0;
    Rows rows;
    std::string text;
    const uint64_t width = 1 + random.below(5), height = 1 + random.below(40);
    for (uint64_t r = 0; r < height; ++r) {
      auto& row = rows.emplace_back();
      for (uint64_t c = 0; c < width; ++c) {
        std::string cell = "x";  // never an empty line
        const uint64_t length = random.below(10) == 0 ? random.below(60'000) : random.below(8);
        for (uint64_t i = 0; i < length; ++i)
          cell += is_csv ? letters[random.below(letters.size())] : char('a' + random.below(26));
        std::string quoted = "\"";
        for (const char letter : cell) quoted += letter == '"' ? "\"\"" : std::string(1, letter);
        text +=
            (c > 0 ? std::string(1, is_csv ? ',' : '\t') : "") + (is_csv ? quoted + "\"" : cell);
        row.push_back(r == 0 ? std::string(trimmed(cell)) : cell);  // of a name, no spaces around
      }
      text += random.below(2) == 0 ? "\n" : "\r\n";
    }
    const std::string name = is_csv ? "t.csv" : "t.tsv";
    EXPECT_TRUE(read_all({write(name, text)}) == rows) << "round " << round;
    EXPECT_TRUE(read_all({write_gzip(name + ".gz", text)}) == rows) << "round " << round;
  }
}

TEST_F(Table, WrongTablesAreNamed) {
  const auto thrown = [&](const fs::path& path) { return words_of([&] { read_all({path}); }); };
  EXPECT_THAT(thrown(folder_ / "none.tsv"), HasSubstr("none.tsv: cannot open: No such file"));
  EXPECT_THAT(thrown(write("e.tsv", "")), HasSubstr("empty; a table starts with a header line"));
  EXPECT_THAT(thrown(write("e.tsv.gz", "")), HasSubstr("empty"));
  EXPECT_THAT(thrown(write("s.tsv", "a\tb\n1\n")),
              HasSubstr("s.tsv:2: 1 cells, but the header has 2"));
  EXPECT_THAT(thrown(write("l.tsv", "a\n\n1\t2\n")), HasSubstr("l.tsv:3: 2 cells"));
  EXPECT_THAT(thrown(write("q.csv", "a\n1\n\"2\n3\n")),
              HasSubstr("q.csv:3: a quote is not closed"));
  EXPECT_THAT(thrown(write("i.csv", "a\n1\"2\"\n")), HasSubstr("i.csv:2: a quote inside a cell"));
  EXPECT_THAT(thrown(write("b.csv", "a\n\"1\"2\n")), HasSubstr("b.csv:2: text behind a closing"));
  EXPECT_THAT(thrown(write("z.tsv", std::string("a\0b\n", 4))), HasSubstr("not a table of text"));
  EXPECT_THAT(thrown(folder_), HasSubstr("a directory, not a table"));
  std::string packed = read_text(write_gzip("c.tsv.gz", "a\n" + std::string(100'000, 'x') + "\n"));
  EXPECT_THAT(thrown(write("c.tsv.gz", packed.substr(0, packed.size() / 2))),
              HasSubstr("damaged or cut short"));
}

TEST_F(Table, WhatStandsBehindGzipIsRefusedAndSeveralAreRead) {
  const std::string packed = read_text(write_gzip("a.tsv.gz", "a\n1\n"));
  const std::string more = read_text(write_gzip("b.tsv.gz", "2\n"));
  EXPECT_THAT(words_of([&] { read_all({write("c.tsv.gz", packed + "garbage")}); }),
              HasSubstr(fmt::format("behind its gzip data, at byte {}", packed.size())));
  EXPECT_EQ(read_all({write("d.tsv.gz", packed + more)}), read_all({write("d.tsv", "a\n1\n2\n")}));
}

TEST_F(Table, AnApostropheBeforeASignIsTakenOff) {
  EXPECT_EQ(read_all({write("a.csv", "'=a,''+b,'c\n'-1,\"'@x, y\",-1\n")}),
            (Rows{{"=a", "'+b", "'c"}, {"-1", "@x, y", "-1"}}));
}

TEST_F(Table, APipeIsRefusedAtOnce) {
  ASSERT_EQ(::mkfifo((folder_ / "p.tsv").c_str(), 0600), 0);
  EXPECT_THAT(words_of([&] { read_all({folder_ / "p.tsv"}); }), HasSubstr("not a regular file"));
}

TEST_F(Table, WithoutAHeaderColumnsAreNumbers) {
  EXPECT_EQ(read_all({.path = write("n.tsv", "a\t1\nb\t2\n"), .header = false}),
            (Rows{{"1", "2"}, {"a", "1"}, {"b", "2"}}));
  const TableReader table({write("h.tsv", "YAL001C\tYBR002W\t-0.3\n")});
  EXPECT_THAT(words_of([&] { table.column("score"); }), HasSubstr("say header=no"));
  const TableReader one({write("s.csv", "a;b\n")});
  EXPECT_THAT(words_of([&] { one.column("a"); }), HasSubstr("is it separator=semicolon?"));
}

TEST_F(Table, AnRTableMayLackTheNameOfItsFirstColumn) {
  const fs::path path = write("r.tsv", "a\tb\nx\t1\t2\ny\t3\t4\n");
  EXPECT_THAT(words_of([&] { read_all({path}); }), HasSubstr("3 cells, but the header has 2"));
  TableReader table({.path = path, .row_names = true});
  ASSERT_TRUE(table.next());
  EXPECT_THAT(table.header(), ElementsAre("", "a", "b"));
  EXPECT_EQ(table.column("b"), 2u);
}

std::string in_utf16(std::u16string_view text, bool is_big) {
  std::string bytes;
  for (const char16_t unit : text) {
    const char high = char(unit >> 8), low = char(unit & 0xff);
    bytes += is_big ? high : low;
    bytes += is_big ? low : high;
  }
  return bytes;
}

TEST_F(Table, EncodingsAndLineEndsOfOthers) {
  const Rows rows = {{"gene", "y"}, {"hoΔ", "1"}, {"𝛼", "2"}};
  EXPECT_EQ(read_all({write("a.tsv", "\xef\xbb\xbf gene\t y \nhoΔ\t1\n𝛼\t2\n")}), rows);
  EXPECT_EQ(read_all({write("b.tsv", "gene\ty\rhoΔ\t1\r𝛼\t2\r")}), rows);
  EXPECT_EQ(read_all({write("c.tsv", "gene\ty\r\nhoΔ\t1\r\n𝛼\t2")}), rows);
  const std::u16string_view text = u"gene\ty\r\nhoΔ\t1\r\n𝛼\t2\r\n";
  for (const bool is_big : {false, true}) {
    EXPECT_EQ(read_all({write("d.tsv", in_utf16(u"\ufeff" + std::u16string(text), is_big))}), rows);
    EXPECT_EQ(read_all({write("e.tsv", in_utf16(text, is_big))}), rows);
  }
  EXPECT_THAT(words_of([&] { read_all({write("f.tsv", in_utf16(text, true) + "x")}); }),
              HasSubstr("ends inside a character"));
  const std::u16string lone = {u'a', 0xdc00, u'\n'};
  EXPECT_THAT(words_of([&] { read_all({write("g.tsv", "\xff\xfe" + in_utf16(lone, false))}); }),
              HasSubstr("broken UTF-16 at byte 4"));
}

// Characters of two units fall on the border of what is read at a time.
TEST_F(Table, LongUtf16IsWhole) {
  for (const size_t before : {0, 1, 2, 3}) {
    std::u16string text = std::u16string(before, u'a') + u"\n";
    std::string expected;
    for (int i = 0; i < 100'000; ++i) text += u"𝛼", expected += "𝛼";
    text += u"\n";
    if (before == 0) text = u"a" + text;
    TableReader table({write("l.tsv", "\xff\xfe" + in_utf16(text, false))});
    ASSERT_TRUE(table.next());
    EXPECT_TRUE(table.cells()[0] == expected) << before;
  }
}

TEST_F(Table, ColumnsAreNamed) {
  const TableReader table({write("a.tsv", "a\tb\tb\n")});
  EXPECT_THAT(words_of([&] { table.column("c"); }),
              HasSubstr("no column 'c'; it has 'a', 'b', 'b'"));
  EXPECT_THAT(words_of([&] { table.column("b"); }), HasSubstr("two columns are called 'b'"));
  std::string many;
  for (int i = 0; i < 100'000; ++i) many += fmt::format("c{}\t", i);
  const TableReader wide({write("w.tsv", many + "\n")});
  const std::string said = words_of([&] { wide.column("none"); });
  EXPECT_LT(said.size(), 2000u);
  EXPECT_THAT(said, HasSubstr("and 99961 more"));
  for (int i = 0; i < 100'000; ++i)  // each is found at once, without a search
    ASSERT_EQ(wide.column(fmt::format("c{}", i)), size_t(i));
  EXPECT_THAT(words_of([&] { TableReader({write("x.tsv", std::string(2'000'000, '\t') + "\n")}); }),
              HasSubstr("a header of 2000001 columns"));
}

TEST(ParseNumber, NumbersMissingAndOthers) {
  EXPECT_EQ(parse_number("-1.5e-3"), -1.5e-3);
  EXPECT_EQ(parse_number(" +7 "), 7.0);
  EXPECT_EQ(parse_number("1e-400"), 0.0);
  EXPECT_EQ(parse_number("\u22121.5e\u22123"), -1.5e-3);
  EXPECT_EQ(parse_number("0,25", ','), 0.25);
  EXPECT_EQ(parse_number("\u22120,25", ','), -0.25);
  EXPECT_EQ(parse_number("7", ','), 7.0);
  for (const char* other : {"0.25", "1.234,5", "1,2,3", ","})
    EXPECT_FALSE(parse_number(other, ','));
  for (const char* missing : {"", " ", "NA", "NaN", "nan", "#N/A", "n/a", "N/A"}) {
    ASSERT_TRUE(parse_number(missing)) << missing;
    EXPECT_TRUE(std::isnan(*parse_number(missing))) << missing;
  }
  for (const char* other :
       {"x", "1x", "1,5", "inf", "-inf", "1e400", "+-1", "+", "0x10", "--1", "1 2"})
    EXPECT_FALSE(parse_number(other)) << other;
}

}  // namespace
}  // namespace lacuna
