#include "lacuna/screen/subset.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/core/random.h"
#include "lacuna/screen/splits/sample_groups.h"

namespace lacuna {
namespace {

using Predicate = std::function<bool(uint64_t sample)>;

// A condition taken apart: "0.01<=p<0.05" is {left "0.01" "<=", subject "p", right "<" "0.05"}.
struct Condition {
  std::string text;
  std::string low, low_operator;  // empty where there is no left side
  std::string subject;
  std::string op, value;
};

std::string trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == text.npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(" \t") - begin + 1));
}

// Splits at <=, >=, !=, <, > or = : pieces and operators in turn.
std::vector<std::string> pieces_of(const std::string& text) {
  std::vector<std::string> pieces;
  size_t start = 0;
  while (pieces.size() < 5) {
    const size_t at = text.find_first_of("<>=!", start);
    pieces.push_back(trimmed(std::string_view(text).substr(start, at - start)));
    if (at == text.npos) break;
    const size_t length = at + 1 < text.size() && text[at + 1] == '=' ? 2 : 1;
    pieces.push_back(text.substr(at, length));
    start = at + length;
  }
  return pieces;
}

[[noreturn]] void refuse(const std::string& text, const std::string& why) {
  throw UsageError(
      "condition '{}' {}; conditions look like removed=2, sd<=0.05, 0.01<=p<0.05, "
      "any-gene=A,B, screen=A, measured=LABEL or split:NAME=train",
      text, why);
}

Condition parse(const std::string& text) {
  const auto pieces = pieces_of(text);
  if (pieces.size() != 3 && pieces.size() != 5) refuse(text, "is not a comparison");
  for (const auto& piece : pieces)
    if (piece.empty()) refuse(text, "is incomplete");
  if (pieces.size() == 3) return {text, "", "", pieces[0], pieces[1], pieces[2]};
  return {text, pieces[0], pieces[1], pieces[2], pieces[3], pieces[4]};
}

// As it would be stored in that type: 0.05 in f32 is a little more than 0.05.
double parse_number(const Condition& condition, const std::string& text, DType stored) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end || std::isnan(value))
    refuse(condition.text,
           fmt::format("compares '{}' with '{}', which is not a number", condition.subject, text));
  const bool fits = std::abs(value) <= double(std::numeric_limits<float>::max());
  return stored == DType::f32 && fits ? double(float(value)) : value;
}

std::function<bool(double)> comparison(const Condition& condition, const std::string& op,
                                       double bound) {
  if (op == "<") return [=](double x) { return x < bound; };
  if (op == "<=") return [=](double x) { return x <= bound; };
  if (op == ">") return [=](double x) { return x > bound; };
  if (op == ">=") return [=](double x) { return x >= bound; };
  if (op == "=") return [=](double x) { return x == bound; };
  if (op == "!=") return [=](double x) { return x != bound && !std::isnan(x); };
  refuse(condition.text, fmt::format("has an unknown comparison '{}'", op));
}

// The condition on a number that is stored in this type, with one bound or two.
std::function<bool(double)> range(const Condition& condition, DType stored) {
  const auto right =
      comparison(condition, condition.op, parse_number(condition, condition.value, stored));
  if (condition.low.empty()) return right;
  if ((condition.low_operator != "<" && condition.low_operator != "<=") ||
      (condition.op != "<" && condition.op != "<="))
    refuse(condition.text, "has two bounds that are not of the form low<=x<high");
  // low < x is x > low
  const auto left = comparison(condition, condition.low_operator == "<" ? ">" : ">=",
                               parse_number(condition, condition.low, stored));
  return [=](double x) { return left(x) && right(x); };
}

std::vector<std::string> list_of(const std::string& text) {
  std::vector<std::string> items;
  for (size_t start = 0; start <= text.size();) {
    const size_t end = std::min(text.find(',', start), text.size());
    items.push_back(trimmed(std::string_view(text).substr(start, end - start)));
    start = end + 1;
  }
  return items;
}

// "A,B,C", or "@FILE" with one per line; blank lines do not count.
std::vector<std::string> names_of(const std::string& text) {
  if (!text.starts_with('@')) return list_of(text);
  std::vector<std::string> names;
  const std::string file = read_text(text.substr(1));
  for (size_t start = 0; start < file.size();) {
    const size_t end = std::min(file.find('\n', start), file.size());
    std::string line = trimmed(std::string_view(file).substr(start, end - start));
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (!line.empty()) names.push_back(std::move(line));
    start = end + 1;
  }
  if (names.empty()) throw Error("{}: no gene names in it", text.substr(1));
  return names;
}

void need_equality(const Condition& condition) {
  if (condition.op != "=" || !condition.low.empty())
    refuse(condition.text, fmt::format("must be of the form {}=...", condition.subject));
}

Predicate genes_condition(const Screen& screen, const Condition& condition) {
  need_equality(condition);
  const NodeType& genes = screen.graph().genes();
  std::vector<bool> listed(genes.size());
  for (const auto& name : names_of(condition.value)) {
    const auto gene = genes.names.look_up(name);
    if (!gene)
      throw Error("condition '{}': {} (in {})", condition.text, genes.names.why_not(name),
                  screen.path().string());
    listed[gene.index] = true;
  }
  const bool only = condition.subject == "only-genes", none = condition.subject == "no-gene";
  return [=, sets = GeneSets(screen), listed = std::move(listed)](uint64_t sample) mutable {
    const auto& removed = sets.read(sample);
    const auto is_listed = [&](uint32_t gene) { return bool(listed[gene]); };
    if (only) return std::all_of(removed.begin(), removed.end(), is_listed);
    return std::any_of(removed.begin(), removed.end(), is_listed) != none;
  };
}

Predicate removed_condition(const Screen& screen, const Condition& condition) {
  return [meets = range(condition, DType::u64), sets = GeneSets(screen)](uint64_t sample) mutable {
    return meets(double(sets.read(sample).size()));
  };
}

Predicate measured_condition(const Screen& screen, const Condition& condition) {
  need_equality(condition);
  return [label = find_values(screen.samples(), "label:" + condition.value)](uint64_t sample) {
    return !std::isnan(label.number(sample));
  };
}

Predicate split_condition(const Screen& screen, const Condition& condition) {
  need_equality(condition);
  const Split& split = screen.split(condition.subject.substr(std::string("split:").size()));
  std::array<bool, 256> wanted = {};
  for (const auto& part : list_of(condition.value)) wanted[size_t(part_from_name(part))] = true;
  return [wanted, parts = split.parts](uint64_t sample) {
    return wanted[parts.as<uint8_t>()[sample]];
  };
}

Predicate category_condition(const Screen& screen, const Condition& condition, Column column) {
  if ((condition.op != "=" && condition.op != "!=") || !condition.low.empty())
    refuse(condition.text,
           fmt::format("orders '{}', which has categories; use = or !=", condition.subject));
  std::vector<bool> listed(column.categories.size());
  for (const auto& name : list_of(condition.value)) {
    const auto at = std::find(column.categories.begin(), column.categories.end(), name);
    if (at == column.categories.end())
      throw Error("condition '{}': column '{}' of {} has no category '{}'", condition.text,
                  column.name, screen.path().string(), name);
    listed[size_t(at - column.categories.begin())] = true;
  }
  const bool wanted = condition.op == "=";
  return [=, column = std::move(column), listed = std::move(listed)](uint64_t sample) {
    const auto code = column.code(sample);
    return code && *code < listed.size() && listed[*code] == wanted;
  };
}

Predicate value_condition(const Screen& screen, const Condition& condition) {
  Column column = find_values(screen.samples(), condition.subject);
  if (column.is_category()) return category_condition(screen, condition, std::move(column));
  auto meets = range(condition, column.values.dtype());
  return [meets = std::move(meets), column = std::move(column)](uint64_t sample) {
    return meets(column.number(sample));
  };
}

Predicate predicate_of(const Screen& screen, const std::string& text) {
  const Condition condition = parse(text);
  const std::string& subject = condition.subject;
  if (subject == "removed") return removed_condition(screen, condition);
  if (subject == "any-gene" || subject == "only-genes" || subject == "no-gene")
    return genes_condition(screen, condition);
  if (subject == "measured") return measured_condition(screen, condition);
  if (subject.starts_with("split:")) return split_condition(screen, condition);
  return value_condition(screen, condition);
}

}  // namespace

std::vector<uint64_t> select_samples(const Screen& screen, const std::vector<std::string>& where,
                                     Progress& progress) {
  std::vector<Predicate> predicates;
  for (const auto& text : where) predicates.push_back(predicate_of(screen, text));
  std::vector<uint64_t> chosen;
  progress.begin("choosing", screen.samples().size(), "samples");
  for (uint64_t s = 0; s < screen.samples().size(); ++s) {
    if (std::all_of(predicates.begin(), predicates.end(), [&](auto& meets) { return meets(s); }))
      chosen.push_back(s);
    if (s % kReportEvery == 0) progress.advance(s);
  }
  progress.end();
  return chosen;
}

std::vector<uint64_t> draw_samples(std::vector<uint64_t> samples, uint64_t count, uint64_t seed) {
  if (count > samples.size())
    throw Error("{} samples at random of {}: there are not so many", count, samples.size());
  Random random(seed);
  // Each is taken with the chance that makes the number right: those wanted of those left.
  uint64_t taken = 0;
  for (size_t i = 0; i < samples.size() && taken < count; ++i)
    if (random.below(samples.size() - i) < count - taken) samples[taken++] = samples[i];
  samples.resize(taken);
  return samples;
}

Screen write_subset(const Screen& screen, const fs::path& out, const SubsetOptions& options,
                    Json made_by, Progress& progress) {
  auto chosen = select_samples(screen, options.where, progress);
  if (chosen.empty() && !options.where.empty())
    throw Error("{}: none of its {} samples meets {}", screen.path().string(),
                screen.samples().size(), fmt::join(options.where, " and "));
  if (options.random) chosen = draw_samples(std::move(chosen), *options.random, options.seed);
  Json how = {{"by", "subset"}, {"where", options.where}};
  if (options.random) how.update({{"random", *options.random}, {"seed", options.seed}});
  const Samples samples = take_samples(screen.samples(), chosen);
  std::vector<Split> splits;
  for (const auto& split : screen.splits()) {
    splits.push_back(take_samples(split, chosen));
    splits.back().how = how;
    splits.back().how["of"] = split.how;
  }
  return write_screen(
      out, {screen.graph(), samples, std::move(splits), std::move(made_by), screen.noise()},
      progress);
}

}  // namespace lacuna
