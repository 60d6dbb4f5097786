// The arguments of the subcommands that need torch, and the functions that do their work.
//
// cli/<name>.cpp declares the options and fills the struct. It is part of both programs, so
// `lacuna` shows every help and refuses every wrong call without loading torch. run() does the
// work: in lacuna-torch it is that of cli/torch/<name>.cpp; in `lacuna` it becomes lacuna-torch
// (cli/torch_commands.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lacuna/core/system/file.h"
#include "lacuna/measure/measure_step.h"
#include "lacuna/train/explain/explain.h"
#include "lacuna/train/export.h"
#include "lacuna/train/predict.h"

namespace lacuna::cli {

struct CompareCall {
  fs::path config, out;
  std::string shard = "1/1";
  uint64_t seeds = 5;
  std::vector<std::string> splits;      // none: the config's
  std::string folds;                    // all splits that `lacuna split --folds` made of this name
  std::vector<std::string> variations;  // "train.lr=1e-3,3e-4"
  std::vector<std::string> settings;    // key=value over the config
};

struct EvaluateCall {
  fs::path run, screen, recording, out;
  std::string checkpoint, device;
  // Of predictions that were made elsewhere, instead of a run's
  fs::path predictions;
  std::string split;
  std::vector<std::string> labels;
  bool without_baselines = false;
};

struct ExplainCall {
  fs::path run;
  ExplainRequest request;
};

struct ExportCall {
  fs::path run;
  bool embeddings = false;
  ExportRequest request;
};

// Of `lacuna plan --config`
struct PlanTrainingCall {
  fs::path config;
  std::vector<std::string> settings;
};

struct PredictCall {
  fs::path run, recording;
  std::string shard = "1/1";
  PredictRequest request;
};

struct ProfileCall {
  fs::path config, out;
  std::vector<std::string> settings;
  uint64_t steps = 50;
  bool json = false;
};

struct TrainCall {
  fs::path config, out;
  std::vector<std::string> settings;
  bool resume = false, tensorboard = false;
};

struct BenchCriteriaCall {
  fs::path screen, out = ".", json;
  uint64_t samples = 128, batch = 28, steps = 3;
  std::vector<std::string> settings;
  std::string python;
};

struct BenchStepCall {
  fs::path config, weights, json;
  std::vector<std::string> settings;
  std::vector<uint64_t> batches;  // none: the config's
  StepCounts counts;
};

// How long that training takes here (train/pace/pace.h): what is trained, seconds, step_seconds,
// steps_an_epoch, epochs, threads, and the same in words, with advice where it is long.
Json training_pace(const PlanTrainingCall& call);
void run(const CompareCall& call);
void run(const EvaluateCall& call);
void run(const ExplainCall& call);
void run(const ExportCall& call);
void run(const PredictCall& call);
void run(const ProfileCall& call);
void run(const TrainCall& call);
void run(const BenchCriteriaCall& call);
void run(const BenchStepCall& call);

}  // namespace lacuna::cli
