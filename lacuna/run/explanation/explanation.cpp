#include "lacuna/run/explanation/explanation.h"

#include "lacuna/run/json_file.h"

namespace lacuna {
namespace {

constexpr const char* kExplanationFormat = "lacuna.explanation";

Json to_json(const std::vector<Metrics>& metrics) {
  Json list = Json::array();
  for (const Metrics& of : metrics) list.push_back(lacuna::to_json(of));
  return list;
}

std::vector<Metrics> metrics_list(const Json& json) {
  std::vector<Metrics> list;
  for (const Json& of : json) list.push_back(metrics_from_json(of));
  return list;
}

Json to_json(const std::vector<ExplainedSample>& samples) {
  Json list = Json::array();
  for (const ExplainedSample& sample : samples) {
    Json neighbours = Json::array();
    for (const MeasuredNeighbour& neighbour : sample.neighbours)
      neighbours.push_back({{"gene", neighbour.gene},
                            {"neighbour", neighbour.neighbour},
                            {"networks", neighbour.networks},
                            {"measured", neighbour.measured}});
    list.push_back({{"genes", sample.genes},
                    {"predicted", sample.predicted},
                    {"change", sample.change},
                    {"neighbours", neighbours}});
  }
  return list;
}

std::vector<ExplainedSample> samples_list(const Json& json, size_t networks) {
  std::vector<ExplainedSample> samples;
  for (const Json& of : json) {
    ExplainedSample sample = {.genes = of.at("genes").get<std::vector<std::string>>(),
                              .predicted = number_of(of, "predicted"),
                              .change = {}};
    for (const Json& change : of.at("change"))
      sample.change.push_back(change.is_null() ? kNotDefined : change.get<double>());
    sample.change.resize(networks, kNotDefined);
    for (const Json& neighbour : of.at("neighbours"))
      sample.neighbours.push_back(
          {.gene = text_of(neighbour, "gene"),
           .neighbour = text_of(neighbour, "neighbour"),
           .networks = neighbour.at("networks").get<std::vector<std::string>>(),
           .measured = number_of(neighbour, "measured")});
    samples.push_back(std::move(sample));
  }
  return samples;
}

Explanation explanation_from(const Json& json) {
  Explanation result = {.checkpoint = text_of(json, "checkpoint"),
                        .part = text_of(json, "part"),
                        .screen = text_of(json, "screen"),
                        .samples = count_of(json, "samples"),
                        .labels = json.at("labels").get<std::vector<std::string>>(),
                        .networks = {},
                        .with_all = metrics_list(json.at("with_all")),
                        .without = {},
                        .label = text_of(json, "label")};
  for (const Json& network : json.at("networks")) {
    result.networks.push_back(network.at("name").get<std::string>());
    result.without.push_back(metrics_list(network.at("without")));
    result.without.back().resize(result.labels.size());
  }
  result.with_all.resize(result.labels.size());
  for (const Json& of : json.at("strongest"))
    result.strongest.push_back({.with = text_of(of, "with"),
                                .candidates = count_of(of, "candidates"),
                                .possible = number_of(of, "possible"),
                                .lowest = samples_list(of.at("lowest"), result.networks.size()),
                                .highest = samples_list(of.at("highest"), result.networks.size())});
  return result;
}

}  // namespace

void write_explanation(const fs::path& run, const Explanation& explanation) {
  Json networks = Json::array(), strongest = Json::array();
  for (size_t t = 0; t < explanation.networks.size(); ++t)
    networks.push_back(
        {{"name", explanation.networks[t]}, {"without", to_json(explanation.without[t])}});
  for (const StrongestPredictions& of : explanation.strongest)
    strongest.push_back({{"with", of.with},
                         {"candidates", of.candidates},
                         {"possible", of.possible},
                         {"lowest", to_json(of.lowest)},
                         {"highest", to_json(of.highest)}});
  write_sealed_json(run / kExplanationFile, {{"format", kExplanationFormat},
                                             {"version", 1},
                                             {"checkpoint", explanation.checkpoint},
                                             {"part", explanation.part},
                                             {"screen", explanation.screen},
                                             {"samples", explanation.samples},
                                             {"labels", explanation.labels},
                                             {"with_all", to_json(explanation.with_all)},
                                             {"networks", networks},
                                             {"label", explanation.label},
                                             {"strongest", strongest}});
}

Explanation read_explanation(const fs::path& file) {
  return read_json_file(file, kExplanationFormat, "run `lacuna explain` again, or remove it",
                        [](const SealedJson& sealed) { return explanation_from(sealed.json); });
}

}  // namespace lacuna
