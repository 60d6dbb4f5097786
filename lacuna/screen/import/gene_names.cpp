#include "lacuna/screen/import/gene_names.h"

#include <algorithm>
#include <regex>

#include "lacuna/core/error.h"

namespace lacuna {
namespace {

constexpr size_t kLongestName = 1000;  // std::regex recurses over what it matches

std::string describe(const GeneList& genes, std::string_view name) {
  return genes.is_ambiguous(name) ? fmt::format("'{}' is an alias of several genes", name)
                                  : fmt::format("unknown gene '{}'", name);
}

void add_aliases(std::string_view cell, const std::string& separator, uint32_t gene,
                 GeneList& genes) {
  for (std::string_view alias : split_text(cell, separator))
    if (alias = trimmed(alias); !alias.empty()) genes.add_alias(alias, gene);
}

void count_aliases(const GeneList& genes, const std::string& source, ImportContext& context) {
  context.report.tally(source, "aliases").count = genes.alias_count();
  context.report.tally(source, "aliases of several genes (lead to none)").count =
      genes.ambiguous_count();
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

void GeneList::add_alias(std::string_view alias, uint32_t gene) {
  if (names_.find(alias)) return;
  const auto [entry, is_new] = aliases_.try_emplace(std::string(alias), gene);
  if (!is_new && entry->second != gene) entry->second.reset();
}

std::optional<uint32_t> GeneList::find(std::string_view name) const {
  if (const auto gene = names_.find(name)) return gene;
  if (aliases_.empty()) return std::nullopt;
  const auto alias = aliases_.find(std::string(name));
  return alias == aliases_.end() ? std::nullopt : alias->second;
}

bool GeneList::is_ambiguous(std::string_view alias) const {
  const auto entry = aliases_.find(std::string(alias));
  return entry != aliases_.end() && !entry->second;
}

uint64_t GeneList::ambiguous_count() const {
  return uint64_t(std::count_if(aliases_.begin(), aliases_.end(),
                                [](const auto& entry) { return !entry.second; }));
}

GeneReader::GeneReader(const GeneList& genes, const NameRules& rules, ImportContext& context,
                       std::string source)
    : genes_(genes),
      separator_(rules.separator),
      ignore_(rules.ignore.begin(), rules.ignore.end()),
      policy_(context.unknown),
      unknown_(context.report.tally(source, "different unknown genes")),
      ignored_(context.report.tally(source, "genes passed over (ignore)")) {
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
    const Piece piece = look_up(text);
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

GeneReader::Piece GeneReader::look_up(std::string_view piece) {
  const auto [entry, is_new] = known_.try_emplace(std::string(piece), Piece{Kind::unknown, 0});
  if (is_new) entry->second = resolve(piece);
  return entry->second;
}

GeneReader::Piece GeneReader::resolve(std::string_view piece) const {
  std::string name(piece);
  if (ignore_.contains(name)) return {Kind::ignored, 0};
  if (pattern_) {
    if (name.size() > kLongestName)
      throw Error("a gene cell of {} characters: '{}...'; is the separator between genes missing?",
                  name.size(), name.substr(0, 40));
    std::cmatch match;
    if (!std::regex_search(piece.data(), piece.data() + piece.size(), match, pattern_->expression))
      return {Kind::unknown, 0};
    name = match[1].str();
    if (ignore_.contains(name)) return {Kind::ignored, 0};
  }
  if (const auto gene = genes_.find(name)) return {Kind::gene, *gene};
  return {Kind::unknown, 0};
}

void GeneReader::refuse(const std::string& where) {
  if (policy_ == UnknownPolicy::error)
    throw Error(
        "{}: {}; give its alias (--aliases), ignore it (ignore=), or leave out what names "
        "unknown genes (--unknown drop)",
        where, describe(genes_, last_unknown_));
  if (unknown_names_.insert(last_unknown_).second)
    unknown_.add_example([&] { return fmt::format("{}: '{}'", where, last_unknown_); });
}

GeneList import_genes(const GeneTableOptions& options, ImportContext& context) {
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
    for (const size_t column : alias_columns) alias_cells.emplace_back(table.cells()[column]);
  }
  if (names.empty()) throw Error("{}: no genes, only a header", source);

  GeneList genes{Names(std::move(names))};
  for (size_t i = 0; i < alias_cells.size(); ++i)
    add_aliases(alias_cells[i], options.alias_separator, uint32_t(i / alias_columns.size()), genes);
  context.report.tally(source, "genes").count = genes.names().size();
  if (!alias_columns.empty()) count_aliases(genes, source, context);
  context.add_source(options.table.path);
  return genes;
}

void import_aliases(const GeneTableOptions& options, GeneList& genes, ImportContext& context) {
  TableReader table(options.table);
  const std::string source = options.table.path.string();
  const size_t gene_column = table.column(options.gene_column);
  std::vector<size_t> alias_columns;
  for (const std::string& name : options.alias_columns) alias_columns.push_back(table.column(name));

  Tally& rows = context.report.tally(source, "rows");
  Tally& foreign = context.report.tally(source, "rows about other genes");
  while (table.next()) {
    rows.add();
    const auto gene = genes.names().find(trimmed(table.cells()[gene_column]));
    if (!gene) {
      foreign.add_example(
          [&] { return fmt::format("{}: '{}'", table.where(), table.cells()[gene_column]); });
      continue;
    }
    for (const size_t column : alias_columns)
      add_aliases(table.cells()[column], options.alias_separator, *gene, genes);
  }
  count_aliases(genes, source, context);
  context.add_source(options.table.path);
}

}  // namespace lacuna
