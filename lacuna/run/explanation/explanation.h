// What carries the predictions of a run: how much worse they become without each network, and the
// strongest predictions that nobody has measured, each with what it hangs on.
//
//   RUN/explanation.json   written by `lacuna explain`, read by the report
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lacuna/core/system/file.h"
#include "lacuna/run/evaluation/metrics.h"

namespace lacuna {

// A training sample that differs from a prediction in one gene, which is a neighbour of the gene
// that it stands for.
struct MeasuredNeighbour {
  std::string gene, neighbour;        // of the prediction, of the sample instead
  std::vector<std::string> networks;  // in which the two are neighbours
  double measured = 0;
};

struct ExplainedSample {
  std::vector<std::string> genes;  // removed
  double predicted = 0;
  std::vector<double> change;  // [networks] predicted minus what is predicted without the network
  std::vector<MeasuredNeighbour> neighbours = {};  // the strongest first
};

// The most extreme predictions among samples that the screen does not have.
struct StrongestPredictions {
  std::string with = {};    // the gene that all of them remove; empty: any
  uint64_t candidates = 0;  // that were predicted
  double possible = 0;      // sets of as many genes, measured ones included
  std::vector<ExplainedSample> lowest = {}, highest = {};
};

struct Explanation {
  std::string checkpoint, part, screen;
  uint64_t samples = 0;                       // of the part that were predicted
  std::vector<std::string> labels;            // [L]
  std::vector<std::string> networks;          // [T]
  std::vector<Metrics> with_all;              // [L]
  std::vector<std::vector<Metrics>> without;  // [T][L] without that network's edges
  std::string label;                          // that the strongest predictions are of
  std::vector<StrongestPredictions> strongest = {};
};

inline constexpr const char* kExplanationFile = "explanation.json";
void write_explanation(const fs::path& run, const Explanation& explanation);
// Throws Error that names the file where it is damaged.
Explanation read_explanation(const fs::path& file);

}  // namespace lacuna
