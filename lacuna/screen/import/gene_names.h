// From the names that tables use to the genes of the screen.
//
// A cell becomes genes in this order, and nothing is ever guessed:
//   1. it is cut at the separator, where the table has one; spaces around each piece are dropped
//   2. a piece on the ignore list is skipped (a control locus that stands for "no gene")
//   3. where there is a pattern, its first group is the name; step 2 applies again
//   4. the name is a gene's own name, else an alias of exactly one gene, else (unless the rules say
//      that case counts) the one gene that has it in another case; else it is unknown
//
// Unknown names are collected, with all their rows, until every table was read; only then is one an
// error. So all of them are told at once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "lacuna/core/error.h"
#include "lacuna/graph/names.h"
#include "lacuna/screen/import/report.h"
#include "lacuna/screen/import/table.h"

namespace lacuna {

// How one table writes genes.
struct NameRules {
  std::string separator = {};  // between several genes of one cell; empty: one gene per cell
  std::string pattern = {};    // ECMAScript, found anywhere in the piece; empty: the whole piece
  std::vector<std::string> ignore = {};  // names that stand for no gene
  Names::Case letters = Names::Case::fold;
  std::optional<UnknownPolicy> unknown = {};  // not set: that of the import
};

// Reads the gene cells of one table.
class GeneReader {
 public:
  // `source` names the table in the report. Throws Error for a pattern that is not a regular
  // expression, or has no group.
  GeneReader(const Names& genes, const NameRules& rules, ImportContext& context,
             std::string source);
  ~GeneReader();

  // Appends the genes of a cell. False when one is unknown: then call refuse().
  bool read(std::string_view cell, std::vector<uint32_t>& genes);
  // Keeps the unknown name that read() met last, for the report or the error.
  void refuse(const std::string& where);
  UnknownPolicy policy() const { return policy_; }

 private:
  enum class Kind { gene, ignored, unknown };
  struct Piece {
    Kind kind = Kind::unknown;
    uint32_t gene = 0;
    std::string name = {};        // of an unknown one: what was looked up
    bool has_match = true;        // false: the pattern found nothing
    UnknownName* told = nullptr;  // in the report, once it was refused
  };
  Piece& look_up(std::string_view piece);
  Piece resolve(std::string_view piece) const;
  bool is_ignored(std::string_view name) const;

  struct Pattern;
  const Names& genes_;
  std::string source_, separator_;
  std::unordered_set<std::string> ignore_;
  std::unique_ptr<Pattern> pattern_;
  Names::Case letters_;
  UnknownPolicy policy_;
  ImportReport& report_;
  Tally& unknown_;  // different unknown names
  Tally& ignored_;
  std::unordered_map<std::string, Piece> known_;  // pieces met so far: patterns are slow
  std::string last_unknown_;
};

// Fills in the `why` of unknown names: the nearest gene, that an alias has several genes, that a
// spreadsheet made a date of it. The nearest is looked for only for the first few hundred names.
void explain_unknown(ImportReport& report, const Names& genes);
// Throws RefusedNames where a name is unknown in a source whose policy is error: one line with the
// first of them. explain_unknown() comes first.
void check_unknown(const ImportReport& report);

// The report has the whole story.
class RefusedNames : public Error {
 public:
  using Error::Error;
};

struct GeneTableOptions {
  TableSource table;
  std::string gene_column = "gene";
  std::vector<std::string> alias_columns;
  std::string alias_separator;  // between several aliases of one cell; empty: one
};
// Genes in the order of the table. Throws Error with the lines of a repeated gene.
Names import_genes(const GeneTableOptions& options, ImportContext& context);
// Adds aliases from another table; rows about genes that are not in the list are counted.
void import_aliases(const GeneTableOptions& options, Names& genes, ImportContext& context);

// The pieces of a text between separators; the whole text when the separator is empty.
std::vector<std::string_view> split_text(std::string_view text, std::string_view separator);

}  // namespace lacuna
