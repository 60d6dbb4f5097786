// From the names that tables use to the genes of the screen.
//
// A cell becomes genes in this order, and nothing is ever guessed:
//   1. it is cut at the separator, where the table has one; spaces around each piece are dropped
//   2. a piece on the ignore list is skipped (a control locus that stands for "no gene")
//   3. where there is a pattern, its first group is the name; step 2 applies again
//   4. the name is a gene's own name, else an alias of exactly one gene, else it is unknown
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "lacuna/graph/names.h"
#include "lacuna/screen/import/report.h"
#include "lacuna/screen/import/table.h"

namespace lacuna {

// The genes of a screen, and what else they are called.
class GeneList {
 public:
  explicit GeneList(Names names) : names_(std::move(names)) {}

  const Names& names() const { return names_; }
  // An alias of two different genes leads to neither. One that is a gene's own name has no effect.
  void add_alias(std::string_view alias, uint32_t gene);
  std::optional<uint32_t> find(std::string_view name) const;
  bool is_ambiguous(std::string_view alias) const;
  uint64_t alias_count() const { return aliases_.size(); }
  uint64_t ambiguous_count() const;

 private:
  Names names_;
  std::unordered_map<std::string, std::optional<uint32_t>> aliases_;  // empty: more than one gene
};

// How one table writes genes.
struct NameRules {
  std::string separator = {};  // between several genes of one cell; empty: one gene per cell
  std::string pattern = {};    // ECMAScript, found anywhere in the piece; empty: the whole piece
  std::vector<std::string> ignore = {};  // names that stand for no gene
};

// Reads the gene cells of one table.
class GeneReader {
 public:
  // `source` names the table in the report. Throws Error for a pattern that is not a regular
  // expression, or has no group.
  GeneReader(const GeneList& genes, const NameRules& rules, ImportContext& context,
             std::string source);
  ~GeneReader();

  // Appends the genes of a cell. False when one is unknown: then call refuse().
  bool read(std::string_view cell, std::vector<uint32_t>& genes);
  // Throws Error naming `where` and the gene, or counts it, as the policy says.
  void refuse(const std::string& where);

 private:
  enum class Kind { gene, ignored, unknown };
  struct Piece {
    Kind kind;
    uint32_t gene;
  };
  Piece look_up(std::string_view piece);
  Piece resolve(std::string_view piece) const;

  struct Pattern;
  const GeneList& genes_;
  std::string separator_;
  std::unordered_set<std::string> ignore_;
  std::unique_ptr<Pattern> pattern_;
  UnknownPolicy policy_;
  Tally& unknown_;  // different unknown names
  Tally& ignored_;
  std::unordered_map<std::string, Piece> known_;  // pieces met so far: patterns are slow
  std::unordered_set<std::string> unknown_names_;
  std::string last_unknown_;
};

struct GeneTableOptions {
  TableSource table;
  std::string gene_column = "gene";
  std::vector<std::string> alias_columns;
  std::string alias_separator;  // between several aliases of one cell; empty: one
};
// Genes in the order of the table. Throws Error with the lines of a repeated gene.
GeneList import_genes(const GeneTableOptions& options, ImportContext& context);
// Adds aliases from another table; rows about genes that are not in the list are counted.
void import_aliases(const GeneTableOptions& options, GeneList& genes, ImportContext& context);

// The pieces of a text between separators; the whole text when the separator is empty.
std::vector<std::string_view> split_text(std::string_view text, std::string_view separator);

}  // namespace lacuna
