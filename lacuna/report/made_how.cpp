#include "lacuna/report/made_how.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lacuna/core/text/text.h"
#include "lacuna/run/json_file.h"

namespace lacuna::report {
namespace {

// "80% training, 10% validation, 10% test"
std::string fraction_words(const Json& how) {
  const auto found = how.find("fractions");
  if (found == how.end() || !found->is_array() || found->size() != 3) return "";
  std::vector<std::string> words;
  const char* const names[] = {"training", "validation", "test"};
  for (size_t i = 0; i < 3; ++i)
    if ((*found)[i].is_number())
      words.push_back(fmt::format("{:.4g}% {}", 100 * (*found)[i].get<double>(), names[i]));
  return fmt::format("{}", fmt::join(words, ", "));
}

// Of a split by category: whether the test part was named, not drawn.
bool has_named(const Json& how) {
  const auto found = how.find("hold_out");
  return found != how.end() && found->is_array() && !found->empty();
}

// What no training sample has.
std::string held_out_words(const Json& how, const std::string& by) {
  const std::string column = text_of(how, "column");
  if (by == "gene") {
    return fmt::format(
        "held out are genes: {} of the test part, {} of the validation part, which no training "
        "sample removes",
        with_commas(count_of(how, "test_genes")), with_commas(count_of(how, "validation_genes")));
  }
  if (by == "pair" && column.empty())
    return "held out are query pairs: no training sample removes one of the test part";
  if (by == "category" && has_named(how)) {
    std::vector<std::string> names;
    for (const Json& name : how["hold_out"])
      if (name.is_string()) names.push_back(name.get<std::string>());
    return fmt::format("held out for test is all of {} in the column '{}'", fmt::join(names, ", "),
                       column);
  }
  if (by == "pair" || by == "category")
    return fmt::format("held out are categories of the column '{}', each with all its samples",
                       column);
  const bool together = !how.contains("repeats_together") || how["repeats_together"] != false;
  const std::string samples =
      together ? "held out are samples; those that remove the same genes are in one part"
               : "held out are samples; others of the same genes may be in training";
  return by == "stratified" ? fmt::format("{}; each part has its share of '{}'", samples, column)
                            : samples;
}

ImportCount import_count(const std::string& source, const std::string& what, const Json& value) {
  ImportCount count = {.source = source, .what = what, .count = 0, .examples = {}};
  if (value.is_number_integer()) count.count = value.get<uint64_t>();
  if (value.is_object()) {
    count.count = count_of(value, "count");
    std::vector<std::string> examples;
    for (const Json& example : value.value("examples", Json::array()))
      if (example.is_string()) examples.push_back(example.get<std::string>());
    count.examples = fmt::format("{}", fmt::join(examples, "; "));
  }
  count.is_left_out = what.find("left out") != what.npos || what.find("passed over") != what.npos ||
                      what.find("taken out") != what.npos;
  return count;
}

}  // namespace

std::string model_words(const RunContents& run) {
  const std::string name = run.setting("model.name");
  std::vector<std::string> words;
  for (const auto& [key, value] : run.settings)
    if (key.starts_with("model.") && key != "model.name")
      words.push_back(fmt::format("{} {}", key.substr(6), value));
  if (name.empty() || words.empty()) return name;
  return fmt::format("{}: {}", name, fmt::join(words, ", "));
}

std::string split_words(const Json& how) {
  if (!how.is_object()) return "";
  const std::string by = text_of(how, "by");
  if (by == "import") return "imported; what was held out by whoever drew it is not known here";
  if (by == "subset" && how.contains("of"))
    return fmt::format("the samples of a subset, of a split that was {}", split_words(how["of"]));
  if (by == "concat") return "joined from the splits of several screens";
  if (by.empty()) return "";
  std::string words = "drawn by " + by;
  if (how.contains("seed")) words += " with seed " + how["seed"].dump();
  if (const std::string fractions = fraction_words(how); !fractions.empty() && !has_named(how))
    words += fmt::format(" ({} asked for)", fractions);
  return fmt::format("{}; {}", words, held_out_words(how, by));
}

std::vector<ImportCount> import_counts(const Json& made_by) {
  std::vector<ImportCount> counts;
  if (!made_by.is_object() || !made_by.contains("report") || !made_by["report"].is_object())
    return counts;
  for (const auto& [source, tallies] : made_by["report"].items())
    if (tallies.is_object())
      for (const auto& [what, value] : tallies.items())
        counts.push_back(import_count(source, what, value));
  return counts;
}

}  // namespace lacuna::report
