#include "lacuna/screen/gene_rule.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <set>

#include "lacuna/core/error.h"

namespace lacuna {
namespace {

constexpr size_t kMostSets = 10'000;
constexpr int kDeepest = 200;
constexpr size_t kMostWork = 3'000'000;  // genes put into sets, over all steps
constexpr size_t kShownRule = 200;       // characters of a rule in a message

enum class Kind { gene, and_word, or_word, open, close, end };

struct Token {
  Kind kind;
  std::string_view text;
  size_t at;  // character in the rule, from 1
};

std::vector<Token> tokens_of(std::string_view rule) {
  std::vector<Token> tokens;
  size_t at = 0;
  while (true) {
    at = rule.find_first_not_of(" \t\r\n", at);
    if (at == rule.npos) break;
    const bool is_parenthesis = rule[at] == '(' || rule[at] == ')';
    const size_t stop =
        is_parenthesis ? at + 1 : std::min(rule.find_first_of(" \t\r\n()", at), rule.size());
    const std::string_view text = rule.substr(at, stop - at);
    std::string lower(text);
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](unsigned char c) { return char(std::tolower(c)); });
    Kind kind = Kind::gene;
    if (text == "(") kind = Kind::open;
    if (text == ")") kind = Kind::close;
    if (lower == "and" || lower == "&" || lower == "&&") kind = Kind::and_word;
    if (lower == "or" || lower == "|" || lower == "||") kind = Kind::or_word;
    tokens.push_back({kind, text, at + 1});
    at = stop;
  }
  tokens.push_back({Kind::end, "its end", rule.size() + 1});
  return tokens;
}

void add_gene(GeneSet& set, const std::string& gene) {
  if (std::find(set.begin(), set.end(), gene) == set.end()) set.push_back(gene);
}

// Keeps the first of sets with the same genes.
std::vector<GeneSet> without_repeats(std::vector<GeneSet> sets) {
  std::set<GeneSet> seen;  // in sorted form
  std::vector<GeneSet> kept;
  for (GeneSet& set : sets) {
    GeneSet sorted = set;
    std::sort(sorted.begin(), sorted.end());
    if (seen.insert(std::move(sorted)).second) kept.push_back(std::move(set));
  }
  return kept;
}

// or   := and ("or" and)*
// and  := unit ("and" unit)*
// unit := gene | "(" or ")"
class Parser {
 public:
  explicit Parser(std::string_view rule) : rule_(rule), tokens_(tokens_of(rule)) {}

  std::vector<GeneSet> parse() {
    if (next().kind == Kind::end) return {};
    std::vector<GeneSet> sets = parse_or(0);
    if (next().kind != Kind::end) refuse("and, or, or the end");
    return sets;
  }

 private:
  const Token& next() const { return tokens_[at_]; }

  std::string shown() const {
    return std::string(rule_.substr(0, kShownRule)) + (rule_.size() > kShownRule ? "..." : "");
  }

  [[noreturn]] void refuse(const char* expected) const {
    throw Error("gene rule '{}': {} expected at character {}, not '{}'", shown(), expected,
                next().at, next().text.substr(0, kShownRule));
  }

  std::vector<GeneSet> parse_or(int depth) {
    std::vector<GeneSet> sets = parse_and(depth);
    while (next().kind == Kind::or_word) {
      ++at_;
      std::vector<GeneSet> right = parse_and(depth);
      check_count(sets.size() + right.size());
      std::move(right.begin(), right.end(), std::back_inserter(sets));
    }
    return without_repeats(std::move(sets));
  }

  std::vector<GeneSet> parse_and(int depth) {
    std::vector<GeneSet> sets = parse_unit(depth);
    while (next().kind == Kind::and_word) {
      ++at_;
      const std::vector<GeneSet> right = parse_unit(depth);
      check_count(sets.size() * right.size());
      std::vector<GeneSet> both;
      for (const GeneSet& a : sets)
        for (const GeneSet& b : right) {
          both.push_back(a);
          for (const std::string& gene : b) add_gene(both.back(), gene);
          count_work(both.back().size() * b.size());
        }
      sets = without_repeats(std::move(both));
    }
    return sets;
  }

  std::vector<GeneSet> parse_unit(int depth) {
    if (depth > kDeepest) throw Error("gene rule with over {} nested parentheses", kDeepest);
    if (next().kind == Kind::gene) return {{std::string(tokens_[at_++].text)}};
    if (next().kind != Kind::open) refuse("a gene or '('");
    ++at_;
    std::vector<GeneSet> sets = parse_or(depth + 1);
    if (next().kind != Kind::close) refuse("')'");
    ++at_;
    return sets;
  }

  // Each gene is searched for in its set, and every "and" builds all sets anew.
  void count_work(size_t genes) {
    work_ += genes;
    if (work_ > kMostWork)
      throw Error("gene rule '{}' is too long to take apart; give the reaction several rules",
                  shown());
  }

  void check_count(size_t sets) const {
    if (sets > kMostSets)
      throw Error("gene rule '{}' multiplies out to over {} gene sets", shown(), kMostSets);
  }

  std::string_view rule_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  size_t work_ = 0;
};

}  // namespace

std::vector<GeneSet> parse_gene_rule(std::string_view rule) { return Parser(rule).parse(); }

}  // namespace lacuna
