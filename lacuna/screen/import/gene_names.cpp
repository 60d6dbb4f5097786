#include "lacuna/screen/import/gene_names.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <regex>

#include "lacuna/core/error.h"
#include "lacuna/core/text/nearest.h"
#include "lacuna/screen/import/spreadsheet_date.h"

namespace lacuna {
namespace {

constexpr size_t kLongestName = 1000;  // std::regex recurses over what it matches

constexpr size_t kMostExplained = 300;  // each is compared with every name and alias
constexpr size_t kShownInError = 10;

// The aliases in a cell, without spaces around it.
std::string alias_cell(const TableReader& table, size_t column) {
  const std::string_view cell = text_cell(table, column);
  if (cell.find_first_of("\t\r\n") != cell.npos)
    throw Error("{}: an alias in column '{}' holds a tab or a line break", table.where(),
                table.header()[column]);
  return std::string(cell);
}

void add_aliases(std::string_view cell, const std::string& separator, uint32_t gene, Names& genes) {
  for (std::string_view alias : split_text(cell, separator))
    if (alias = trimmed(alias); !alias.empty()) genes.add_alias(alias, gene);
}

void count_aliases(const Names& genes, const std::string& source, ImportContext& context) {
  context.report.tally(source, "aliases").count = genes.alias_count();
  context.report.tally(source, "aliases of several genes (lead to none)").count =
      genes.ambiguous_count();
}

std::string quoted_with_origin(const UnknownName& unknown) {
  if (unknown.name == unknown.cell) return fmt::format("'{}'", unknown.name);
  return fmt::format("'{}' (from '{}')", unknown.name, unknown.cell);
}

}  // namespace

struct GeneReader::Pattern {
  std::regex expression;
};

std::vector<std::string_view> split_text(std::string_view text, std::string_view separator) {
  if (separator.empty()) return {text};
  std::vector<std::string_view> pieces;
  while (true) {
    const size_t at = text.find(separator);
    pieces.push_back(text.substr(0, at));
    if (at == text.npos) return pieces;
    text.remove_prefix(at + separator.size());
  }
}

GeneReader::GeneReader(const Names& genes, const NameRules& rules, ImportContext& context,
                       std::string source)
    : genes_(genes),
      source_(std::move(source)),
      separator_(rules.separator),
      ignore_(rules.ignore.begin(), rules.ignore.end()),
      letters_(rules.letters),
      policy_(rules.unknown.value_or(context.unknown)),
      report_(context.report),
      unknown_(context.report.tally(source_, "different unknown genes")),
      ignored_(context.report.tally(source_, "genes passed over (ignore)")) {
  if (rules.pattern.empty()) return;
  try {
    pattern_ = std::make_unique<Pattern>(Pattern{std::regex(rules.pattern)});
  } catch (const std::regex_error& error) {
    throw Error("pattern '{}' is not a regular expression: {}", rules.pattern, error.what());
  }
  if (pattern_->expression.mark_count() < 1)
    throw Error("pattern '{}' has no group; put the gene's part in parentheses", rules.pattern);
}

GeneReader::~GeneReader() = default;

bool GeneReader::read(std::string_view cell, std::vector<uint32_t>& genes) {
  bool all_known = true;
  const auto read_piece = [&](std::string_view text) {
    text = trimmed(text);
    if (text.empty()) return;
    const Piece& piece = look_up(text);
    if (piece.kind == Kind::gene) genes.push_back(piece.gene);
    if (piece.kind == Kind::ignored) ignored_.add();
    if (piece.kind == Kind::unknown && all_known) {
      all_known = false;
      last_unknown_ = text;
    }
  };
  if (separator_.empty())
    read_piece(cell);
  else
    for (const std::string_view text : split_text(cell, separator_)) read_piece(text);
  return all_known;
}

GeneReader::Piece& GeneReader::look_up(std::string_view piece) {
  const auto [entry, is_new] = known_.try_emplace(std::string(piece));
  if (is_new) entry->second = resolve(piece);
  return entry->second;
}

bool GeneReader::is_ignored(std::string_view name) const {
  if (ignore_.contains(std::string(name))) return true;
  return letters_ == Names::Case::fold && std::ranges::any_of(ignore_, [&](const auto& ignored) {
           return ignored.size() == name.size() && letters_apart(ignored, name) == 0;
         });
}

GeneReader::Piece GeneReader::resolve(std::string_view piece) const {
  std::string name(piece);
  if (is_ignored(name)) return {.kind = Kind::ignored};
  if (pattern_) {
    if (name.size() > kLongestName)
      throw Error("a gene cell of {} characters: '{}...'; is the separator between genes missing?",
                  name.size(), name.substr(0, 40));
    std::cmatch match;
    if (!std::regex_search(piece.data(), piece.data() + piece.size(), match, pattern_->expression))
      return {.name = name, .has_match = false};
    name = match[1].str();
    if (is_ignored(name)) return {.kind = Kind::ignored};
  }
  const Names::Found found = genes_.look_up(name, letters_);
  if (!found) return {.name = name};
  if (found.match == Names::Match::other_case)
    report_.tally(source_, "different names that are a gene's in another case").add_example([&] {
      return fmt::format("'{}' is {}", name, genes_.shown(found.index));
    });
  return {.kind = Kind::gene, .gene = found.index};
}

void GeneReader::refuse(const std::string& where) {
  Piece& piece = look_up(last_unknown_);
  if (piece.told == nullptr) {
    report_.unknown_names.push_back({.source = source_,
                                     .where = where,
                                     .cell = last_unknown_,
                                     .name = piece.name,
                                     .has_match = piece.has_match,
                                     .is_error = policy_ == UnknownPolicy::error});
    piece.told = &report_.unknown_names.back();
    unknown_.add_example(
        [&] { return fmt::format("{}: {}", where, quoted_with_origin(*piece.told)); });
  }
  ++piece.told->count;
}

void explain_unknown(ImportReport& report, const Names& genes) {
  size_t explained = 0;
  for (UnknownName& unknown : report.unknown_names) {
    const auto before = name_before_date(unknown.name);
    if (!unknown.has_match) {
      unknown.why = "the pattern finds nothing in it";
    } else if (before) {
      const Names::Found gene = genes.look_up(*before);
      unknown.why = fmt::format("a date, which a spreadsheet has made of a name such as {}",
                                gene ? genes.shown(gene.index) : *before);
    } else if (genes.look_up(unknown.name).match == Names::Match::ambiguous) {
      unknown.is_ambiguous = true;
      unknown.why = genes.why_not(unknown.name);
    } else if (++explained <= kMostExplained) {
      unknown.why = fmt::format("nearest is {}", genes.shown(genes.nearest(unknown.name)));
    }
  }
}

void check_unknown(const ImportReport& report) {
  std::vector<std::string> words;
  size_t count = 0;
  for (const UnknownName& unknown : report.unknown_names) {
    if (!unknown.is_error || ++count > kShownInError) continue;
    if (unknown.is_ambiguous) {
      words.push_back(fmt::format("{}: {}", unknown.where, unknown.why));
      continue;
    }
    words.push_back(fmt::format("{}: unknown gene {}{}", unknown.where, quoted_with_origin(unknown),
                                unknown.why.empty() ? "" : ": " + unknown.why));
  }
  if (count == 0) return;
  throw RefusedNames(
      "{}{}{}; give aliases (--aliases), ignore a name (ignore=), or leave out what names unknown "
      "genes (--unknown drop, or unknown=drop beside one table)",
      count > 1 ? fmt::format("{} unknown genes: ", count) : "", fmt::join(words, "; "),
      count > words.size() ? fmt::format("; and {} more, listed above", count - words.size()) : "");
}

Names import_genes(const GeneTableOptions& options, ImportContext& context) {
  TableReader table(options.table);
  const std::string source = options.table.path.string();
  const size_t gene_column = table.column(options.gene_column);
  std::vector<size_t> alias_columns;
  for (const std::string& name : options.alias_columns) alias_columns.push_back(table.column(name));

  std::vector<std::string> names;
  std::vector<std::string> alias_cells;
  std::unordered_map<std::string, uint64_t> lines;
  while (table.next()) {
    const std::string name(trimmed(table.cells()[gene_column]));
    if (name.empty()) throw Error("{}: no gene in column '{}'", table.where(), options.gene_column);
    const auto [entry, is_new] = lines.try_emplace(name, table.line());
    if (!is_new)
      throw Error("{}: gene '{}' is already on line {}; take one of them out", table.where(), name,
                  entry->second);
    names.push_back(name);
    for (const size_t column : alias_columns) alias_cells.push_back(alias_cell(table, column));
  }
  if (names.empty()) throw Error("{}: no genes, only a header", source);

  Names genes(std::move(names));
  for (size_t i = 0; i < alias_cells.size(); ++i)
    add_aliases(alias_cells[i], options.alias_separator, uint32_t(i / alias_columns.size()), genes);
  context.report.tally(source, "genes").count = genes.size();
  if (!alias_columns.empty()) count_aliases(genes, source, context);
  context.add_source(options.table.path);
  return genes;
}

void import_aliases(const GeneTableOptions& options, Names& genes, ImportContext& context) {
  TableReader table(options.table);
  const std::string source = options.table.path.string();
  const size_t gene_column = table.column(options.gene_column);
  std::vector<size_t> alias_columns;
  for (const std::string& name : options.alias_columns) alias_columns.push_back(table.column(name));

  Tally& rows = context.report.tally(source, "rows");
  Tally& foreign = context.report.tally(source, "rows about other genes");
  while (table.next()) {
    rows.add();
    const auto gene = genes.look_up(trimmed(table.cells()[gene_column]));
    if (!gene) {
      foreign.add_example(
          [&] { return fmt::format("{}: '{}'", table.where(), table.cells()[gene_column]); });
      continue;
    }
    for (const size_t column : alias_columns)
      add_aliases(alias_cell(table, column), options.alias_separator, gene.index, genes);
  }
  count_aliases(genes, source, context);
  context.add_source(options.table.path);
}

}  // namespace lacuna
