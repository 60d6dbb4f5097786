#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <map>
#include <span>

#include "lacuna/core/median.h"
#include "lacuna/core/text/text.h"
#include "lacuna/report/html.h"
#include "lacuna/report/made_how.h"
#include "lacuna/report/sections.h"
#include "lacuna/run/evaluation/evaluation_words.h"

namespace lacuna::report {
namespace {

// ---- words

std::string with_interval(const Estimate& estimate, const std::string& interval) {
  if (!std::isfinite(estimate.low) || !std::isfinite(estimate.high))
    return correlation(estimate.value);
  return fmt::format("{} ({} {} to {})", correlation(estimate.value), interval,
                     correlation(estimate.low), correlation(estimate.high));
}

constexpr uint64_t kFew = 10;  // samples, of which a correlation says little

// From the paired difference, never from the two intervals: they may overlap where the model is
// ahead in nearly every draw.
std::string comparison(const RunContents& run, const PartEvaluation& part, const Scores& baseline) {
  if (!baseline.difference) {
    if (run.evaluation->bootstrap == 0 && std::isfinite(run.evaluation->level))
      return "Without draws (`evaluate.bootstrap` is 0) this does not say whether the model is "
             "ahead "
             "of it.";
    return fmt::format(
        "Whether the model is ahead of it was not computed; run `lacuna evaluate {}`.",
        shell_word(run.path.string()));
  }
  const Standing where = standing(*baseline.difference);
  if (where == Standing::not_defined) return "The two cannot be compared.";
  const MetricField& metric = judged_by(*baseline.difference);
  const Estimate judged = baseline.difference->estimate(metric);
  const auto text = [&](double value) { return metric_text(metric, value); };
  const std::string what =
      where == Standing::not_told_apart
          ? "The two are not told apart"
          : fmt::format("The {} is {} it", run.is_ensemble() ? "ensemble" : "model",
                        where == Standing::ahead ? "ahead of" : "behind");
  return fmt::format("{}: its {} minus the baseline's is {} ({} {} to {}, over {}{}).", what,
                     metric.title, text(judged.value), interval_words(*run.evaluation),
                     text(judged.low), text(judged.high),
                     part.units > 0 ? with_commas(part.units) + " " : "", part.unit_words());
}

std::string verdict(const RunContents& run, const PartEvaluation& part,
                    const LabelEvaluation& label) {
  const std::string split = run.split(), who = run.is_ensemble() ? "ensemble" : "model";
  const Metrics& model = label.model().metrics;
  std::string text = fmt::format(
      "On the {} part{} ({} measured samples), what the {} predicts for '{}' correlates with "
      "what was measured at Pearson {}.",
      part.part, split.empty() ? "" : fmt::format(" of split '{}'", split),
      with_commas(model.count), who, label.label,
      with_interval(label.model().estimate(kPearson), interval_words(*run.evaluation)));
  if (!std::isfinite(model.pearson))
    text = fmt::format(
        "On the {} part the correlation of what the {} predicts for '{}' with what was measured "
        "is not defined (too few measured samples, or predictions that are all the same or not "
        "finite).",
        part.part, who, label.label);
  const Scores* best = label.best_baseline();
  if (!best) return text + " No baselines were evaluated beside it.";
  text += fmt::format(" The best simple baseline, {}, reaches {}.", best->predictor,
                      with_interval(best->estimate(kPearson), "interval"));
  if (std::isfinite(model.pearson)) text += " " + comparison(run, part, *best);
  if (const std::string words = network_text(label); !words.empty())
    text += fmt::format(" The {} is {}.", who, words);
  if (model.count < kFew) text += fmt::format(" {} samples are too few to say more.", model.count);
  return text;
}

// ---- figures of one run

std::string card(const std::string& value, const std::string& what, const std::string& more = "") {
  return fmt::format("<div class=\"card\"><b>{}</b><span>{}</span><small>{}</small></div>\n",
                     escape(value), escape(what), escape(more));
}

std::string interval_text(const Estimate& estimate) {
  if (!std::isfinite(estimate.low) || !std::isfinite(estimate.high)) return "";
  return fmt::format("{} to {}", number(estimate.low), number(estimate.high));
}

// Seconds from one "2026-11-15T12:58:28Z" to another; negative where they do not read so.
double seconds_between(const std::string& from, const std::string& to) {
  const auto parse = [](const std::string& text) -> double {
    std::tm time = {};
    if (std::sscanf(text.c_str(), "%d-%d-%d%*[T ]%d:%d:%d", &time.tm_year, &time.tm_mon,
                    &time.tm_mday, &time.tm_hour, &time.tm_min, &time.tm_sec) != 6)
      return std::nan("");
    time.tm_year -= 1900;
    time.tm_mon -= 1;
    return double(::timegm(&time));
  };
  const double seconds = parse(to) - parse(from);
  return std::isfinite(seconds) ? seconds : -1;
}

double median_rate(const RunContents& run) {
  std::vector<double> rates;
  for (const auto& line : run.steps)
    if (std::isfinite(line.samples_per_s)) rates.push_back(line.samples_per_s);
  if (rates.empty()) return kNotDefined;
  return median(std::move(rates));
}

// The word, and the paired difference that it comes from.
std::string difference_card(const Difference& difference, const std::string& baseline) {
  const MetricField& metric = judged_by(difference);
  const Estimate judged = difference.estimate(metric);
  std::string interval;
  if (std::isfinite(judged.low) && std::isfinite(judged.high))
    interval = fmt::format(", {} to {}", metric_text(metric, judged.low),
                           metric_text(metric, judged.high));
  const Standing where = standing(difference);
  const char* to = where == Standing::ahead ? "of " : where == Standing::behind ? "" : "from ";
  return card(std::string(name(where)), to + baseline,
              fmt::format("{} {}{}{}", metric.title, judged.value > 0 ? "+" : "",
                          metric_text(metric, judged.value), interval));
}

std::string metric_cards(const PartEvaluation& part, const LabelEvaluation& label) {
  const Scores& model = label.model();
  std::string below = interval_text(model.estimate(kPearson));
  if (std::isfinite(label.ceiling))
    below +=
        fmt::format("{}noise ceiling {}", below.empty() ? "" : "; ", correlation(label.ceiling));
  std::string out =
      card(correlation(model.metrics.pearson), fmt::format("Pearson, {}", part.part), below);
  if (const Scores* best = label.best_baseline())
    out += card(correlation(best->metrics.pearson), "best baseline",
                fmt::format("{}, {}", best->predictor, interval_text(best->estimate(kPearson))));
  if (const Scores* best = label.best_baseline(); best && best->difference)
    out += difference_card(*best->difference, best->predictor);
  return out + card(number(model.metrics.mse), fmt::format("MSE, {}", part.part),
                    interval_text(model.estimate(kMse)));
}

std::string run_cards(const RunContents& run) {
  std::string out;
  if (run.info.parameters > 0) out += card(with_commas(run.info.parameters), "parameters");
  if (!run.epochs.empty() || !run.steps.empty()) {
    out += card(with_commas(run.epochs.size()), run.epochs.size() == 1 ? "epoch" : "epochs",
                fmt::format("{} steps", with_commas(run.last_step())));
  }
  if (const double rate = median_rate(run); std::isfinite(rate))
    out += card(format_rate(rate), "samples a second", run.info.device);
  // Times are whole seconds: of an ensemble that was made within one they say nothing.
  if (const double seconds = seconds_between(run.info.started, run.info.ended);
      seconds >= 1 || (seconds == 0 && !run.epochs.empty()))
    out += card(format_duration(seconds), "from start to end");
  return out;
}

// On one line where it is short enough for that.
Cell whole_cell(const std::string& text) {
  return {text.size() > 32 ? escape(text)
                           : fmt::format("<span class=\"whole\">{}</span>", escape(text)),
          false};
}

// The colour of its level from 0 to 1, under the text.
Cell heat_cell(double value, const std::string& html) {
  if (!std::isfinite(value)) return {html, true};
  return {fmt::format("<span class=\"heat\" style=\"--level:{:.0f}%\">{}</span>",
                      100 * std::clamp(value, 0.0, 1.0), html),
          true};
}

std::string difference_html(const Difference& difference) {
  const MetricField& metric = judged_by(difference);
  const Estimate judged = difference.estimate(metric);
  if (!std::isfinite(judged.value)) return "<span class=\"pale\">not defined</span>";
  return fmt::format("{} <span class=\"pale\">{}</span>", metric_text(metric, judged.value),
                     name(standing(difference)));
}

// "Ahead of", "Behind", "Not told apart from": the beginning of a sentence.
std::string capitalised(std::string_view standing) {
  std::string word(standing);
  word[0] = char(std::toupper(word[0]));
  return word + (word == "Ahead" ? " of" : word == "Behind" ? "" : " from");
}

// A row a label, and their means: for up to hundreds of labels.
std::string labels_block(const RunContents& run, const PartEvaluation& part) {
  std::vector<TableRow> rows;
  std::map<std::string_view, uint64_t> standings;
  double sum = 0;
  uint64_t defined = 0;
  for (const auto& label : part.labels) {
    const Scores* best = label.best_baseline();
    const bool is_compared = best && best->difference;
    if (is_compared) ++standings[name(standing(*best->difference))];
    if (const double pearson = label.model().metrics.pearson; std::isfinite(pearson))
      sum += pearson, ++defined;
    rows.push_back(
        {.cells = {whole_cell(label.label),
                   heat_cell(label.model().metrics.pearson, pearson_html(label)),
                   {score_html(label.model(), kSpearman), true},
                   number_cell(label.model().metrics.mse),
                   best ? heat_cell(best->metrics.pearson, correlation(best->metrics.pearson))
                        : Cell{"none", true},
                   text_cell(best ? best->predictor : ""),
                   {is_compared ? difference_html(*best->difference) : "", true},
                   count_cell(label.model().metrics.count)}});
  }
  std::string words = fmt::format("{} labels on the {} part", part.labels.size(), part.part);
  if (defined > 0)
    words += fmt::format(", Pearson {} on average", correlation(sum / double(defined)));
  words += ".";
  for (const auto& [standing, count] : standings)
    words += fmt::format(" {} the best baseline for {} of them.", capitalised(standing), count);
  const auto behind = std::ranges::count_if(
      part.labels, [](const LabelEvaluation& label) { return !network_text(label).empty(); });
  if (behind > 0)
    words += fmt::format(" Not ahead of network, a ridge that reads the gene networks, for {}.",
                         with_commas(uint64_t(behind)));
  words +=
      fmt::format(" Brackets: {}s. Darker: a higher correlation.", interval_words(*run.evaluation));
  return paragraph(words) + sortable_table({"label", "Pearson", "Spearman", "mean squared error",
                                            "best baseline", "which", "model minus it", "samples"},
                                           rows, part.labels.size() > 8 ? "a label" : "");
}

// ---- how it was made

// The split as the screen has it now.
std::string how_split(const RunContents& run, const RunScreen& screen) {
  if (run.split().empty()) return "";
  std::string words;
  if (screen.facts)
    for (const Split& split : screen.facts->screen.splits())
      if (split.name == run.split()) words = split_words(split.how);
  return fmt::format("'{}'{}{}", run.split(), words.empty() ? "" : ", ", words);
}

// "a.tsv: 12 rows left out: an unknown gene", a line each.
std::string left_out_html(const RunScreen& screen) {
  if (!screen.facts) return "";
  const auto counts =
      import_counts(screen.facts->screen.directory().manifest().value("made_by", Json::object()));
  if (counts.empty()) return "";
  std::string html;
  for (const ImportCount& count : counts)
    if (count.is_left_out && count.count > 0)
      html += fmt::format("{}{}: {} {}", html.empty() ? "" : "<br>",
                          escape(fs::path(count.source).filename().string()),
                          with_commas(count.count), escape(count.what));
  return html.empty() ? "the import left nothing out" : html;
}

// The command of a screen that was not imported: what an import left out stands with its source.
std::string made_by_words(const RunScreen& screen) {
  if (!screen.facts) return "";
  const Json made_by = screen.facts->screen.directory().manifest().value("made_by", Json::object());
  if (!made_by.is_object() || !import_counts(made_by).empty()) return "";
  const auto command = made_by.find("command");
  if (command == made_by.end() || !command->is_string()) return "";
  return command->get<std::string>();
}

// Of an ensemble, a line a member.
std::string members_html(const RunContents& run) {
  if (!run.ensemble) return "";
  std::string html = run.ensemble->weighted ? "weighted for the lowest MSE on validation"
                                            : "a mean in which all count alike";
  for (const EnsembleMember& member : run.ensemble->members) {
    std::vector<std::string> weights;
    for (const double weight : member.weights) weights.push_back(fmt::format("{:.3f}", weight));
    html += fmt::format("<br>{}: {}, weight {}", escape(member.name), escape(member.words()),
                        fmt::join(weights, " "));
  }
  return html;
}

std::string made_table(const RunContents& run, const RunScreen& screen) {
  std::vector<TableRow> rows;
  const auto add = [&](const char* what, const std::string& html) {
    if (!html.empty()) rows.push_back({.cells = {whole_cell(what), {html, false}}});
  };
  if (run.is_ensemble()) {  // its settings are those of its first member
    add("members", members_html(run));
    add("screen", escape(run.info.screen));
  } else {
    add("model", escape(model_words(run)));
    add("trained on", escape(run.info.screen + (run.is_shuffled() ? ", its graph shuffled" : "")));
  }
  add("split", escape(how_split(run, screen)));
  add("made by", escape(made_by_words(screen)));
  add("import", left_out_html(screen));
  return rows.empty() ? "" : table({"", ""}, rows);
}

std::string one_run(const RunContents& run, const RunScreen& screen) {
  std::string out = "<div class=\"cards\">\n";
  const PartEvaluation* part = run.main_part();
  if (part && part->labels.size() == 1) out += metric_cards(*part, part->labels[0]);
  out += run_cards(run) + "</div>\n";
  const std::string made = made_table(run, screen);
  if (!part)
    return out + made +
           paragraph(fmt::format("This run was not evaluated yet: run `lacuna evaluate {}`, "
                                 "then make the report again.",
                                 shell_word(run.path.string())));
  if (part->labels.size() == 1) return out + paragraph(verdict(run, *part, part->labels[0])) + made;
  return out + labels_block(run, *part) + made;
}

std::string banner(const char* kind, const std::string& text) {
  return fmt::format("<div class=\"banner {}\" role=\"status\">{}</div>\n", kind, prose(text));
}

}  // namespace

std::string metric_text(const MetricField& metric, double value) {
  return &metric == &kMse ? number(value) : correlation(value);
}

std::string pearson_html(const LabelEvaluation& label) {
  std::string html = score_html(label.model(), kPearson);
  if (std::isfinite(label.ceiling))
    html +=
        fmt::format("<br><span class=\"pale\">noise ceiling {}</span>", correlation(label.ceiling));
  return html;
}

std::string score_html(const Scores& scores, const MetricField& metric) {
  const auto [value, low, high] = scores.estimate(metric);
  if (!std::isfinite(value)) return "<span class=\"pale\">not defined</span>";
  if (!std::isfinite(low) || !std::isfinite(high)) return metric_text(metric, value);
  return fmt::format("{} <span class=\"pale\">[{}, {}]</span>", metric_text(metric, value),
                     metric_text(metric, low), metric_text(metric, high));
}

std::vector<Estimate> estimates_of(const Scores& scores) {
  std::vector<Estimate> estimates;
  for (const MetricField& metric : kMetrics) estimates.push_back(scores.estimate(metric));
  return estimates;
}

double ceiling_of(const PartEvaluation* part, const std::string& label) {
  if (part)
    for (const LabelEvaluation& of : part->labels)
      if (of.label == label) return of.ceiling;
  return kNotDefined;
}

std::string ceiling_note(double ceiling) {
  return std::isfinite(ceiling) ? "Noise ceiling of Pearson: " + correlation(ceiling) + "." : "";
}

const std::vector<std::string>& metric_panels() {
  static const std::vector<std::string> panels = {"Pearson", "Spearman", "mean squared error"};
  return panels;
}

std::string interval_words(const Evaluation& evaluation) {
  return std::isfinite(evaluation.level)
             ? fmt::format("{:.4g}% bootstrap interval", 100 * evaluation.level)
             : "bootstrap interval";
}

std::string banners(const RunContents& run, bool with_name) {
  const std::string who = with_name ? fmt::format("Run '{}'", run.name) : "This run";
  const std::string message = run.info.message.empty() ? "" : " It said: " + run.info.message;
  std::string reached;
  if (!run.steps.empty())
    reached = fmt::format(" at step {} of epoch {}", with_commas(run.steps.back().step),
                          run.steps.back().epoch + 1);
  std::string out;
  if (run.info.status == "stopped")
    out += banner("warn", fmt::format("{} was stopped{}. What follows is what there was by then; "
                                      "`--resume` goes on from there.{}",
                                      who, reached, message));
  else if (run.info.status == "running")
    out += banner("warn", fmt::format("{} had not ended when this report was made: it was still "
                                      "running{}, or it was killed.{}",
                                      who, reached, message));
  else if (run.info.status == "failed")
    out += banner("bad", fmt::format("{} failed{}.{}", who, reached, message));
  else if (!run.is_finished())
    out += banner("warn", fmt::format("{} has status '{}'.{}", who, run.info.status, message));
  for (const auto& note : run.notes)
    out += banner("quiet", with_name ? fmt::format("Run '{}': {}", run.name, note) : note);
  return out;
}

std::string summary_section(std::span<const RunContents> runs, std::span<const RunScreen> screens) {
  return runs.size() == 1 ? one_run(runs[0], screens[0]) : several_runs(runs);
}

}  // namespace lacuna::report
