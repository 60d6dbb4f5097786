// Two processes that train one model: this one is rank 0, and starts itself again as rank 1.
#include "lacuna/train/group.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "lacuna/core/testing.h"
#include "lacuna/run/evaluation/evaluation_file.h"
#include "lacuna/screen/testing.h"
#include "lacuna/train/checkpoint.h"
#include "lacuna/train/loop.h"
#include "lacuna/train/predictor.h"
#include "lacuna/train/screen_task.h"
#include "lacuna/train/testing.h"
#include "lacuna/train/trainer.h"

extern char** environ;

namespace lacuna {
namespace {

constexpr const char* kWork = "LACUNA_TEST_RANK_1";  // what rank 1 is to do, and in which folder
constexpr int kSocket = 9;                           // its end of the line to rank 0

// Two ranks over a socket. Rank 0 adds up, so both get its bits.
class SocketGroup : public Group {
 public:
  SocketGroup(uint32_t rank, int socket) : rank_(rank), socket_(socket) {}
  ~SocketGroup() override { ::close(socket_); }
  uint32_t rank() const override { return rank_; }
  uint32_t world() const override { return 2; }
  void sum(at::TensorList tensors) override {
    for (const at::Tensor& tensor : tensors) {
      if (rank_ == 0) {
        tensor.add_(receive(tensor));
        send(tensor);
      } else {
        send(tensor);
        tensor.copy_(receive(tensor));
      }
    }
  }
  void broadcast(at::TensorList tensors) override {
    const at::NoGradGuard guard;
    for (const at::Tensor& tensor : tensors) {
      if (rank_ == 0)
        send(tensor);
      else
        tensor.copy_(receive(tensor));
    }
  }
  void barrier() override {
    const at::Tensor nothing = at::zeros({});
    sum(nothing);
  }

 private:
  void send(const at::Tensor& tensor) const {
    const at::Tensor bytes = tensor.detach().contiguous();
    const char* at = static_cast<const char*>(bytes.const_data_ptr());
    for (size_t left = bytes.nbytes(); left > 0;) {
      const ssize_t sent = ::send(socket_, at, left, MSG_NOSIGNAL);
      if (sent <= 0) throw Error("the other rank has gone");
      at += sent;
      left -= size_t(sent);
    }
  }
  at::Tensor receive(const at::Tensor& like) const {
    const at::Tensor bytes = at::empty_like(like.detach(), at::MemoryFormat::Contiguous);
    char* at = static_cast<char*>(bytes.mutable_data_ptr());
    for (size_t left = bytes.nbytes(); left > 0;) {
      const ssize_t received = ::recv(socket_, at, left, 0);
      if (received <= 0) throw Error("the other rank has gone");
      at += received;
      left -= size_t(received);
    }
    return bytes;
  }

  uint32_t rank_;
  int socket_;
};

// Rank 1, in a process of its own for as long as this lives.
class OtherRank {
 public:
  OtherRank(const std::string& work, const fs::path& folder) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw Error("no sockets");
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], kSocket);
    for (const int output : {1, 2})  // it may not write to files, and this may be one
      ::posix_spawn_file_actions_addopen(&actions, output, "/dev/null", O_WRONLY, 0);
    ::setenv(kWork, (work + " " + folder.string()).c_str(), 1);
    std::string program = "/proc/self/exe", filter = "--gtest_filter=TwoRanks.DISABLED_Other",
                also = "--gtest_also_run_disabled_tests";
    char* words[] = {program.data(), filter.data(), also.data(), nullptr};
    const int status = ::posix_spawn(&process_, program.c_str(), &actions, nullptr, words, environ);
    ::unsetenv(kWork);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    group = std::make_unique<SocketGroup>(0, ends[0]);
    if (status != 0) throw Error("rank 1 does not start");
  }
  ~OtherRank() { end(); }
  // Its exit status.
  int end() {
    group.reset();  // so that it does not wait for us
    int status = 0;
    if (process_ > 0) ::waitpid(process_, &status, 0);
    process_ = 0;
    return status;
  }

  std::unique_ptr<Group> group;

 private:
  pid_t process_ = 0;
};

// Missing labels, weights, and 31 training samples in batches of 6: the last one has a single
// sample, and none for rank 1.
Config config_of(const fs::path& folder, const std::vector<std::string>& settings = {}) {
  return parse_config(
      fmt::format(
          "screen: {}\nsplit: thirds\n"
          "model: {{name: hetero_gin, width: 8, layers: 2, dropout: 0}}\n"
          "train: {{epochs: 2, batch: 6, log_every: 1, weight_column: weight, threads: 1}}\n"
          "evaluate: {{bootstrap: 0}}\n",
          (folder / "screen").string()),
      settings);
}

void write_weighted_screen(const fs::path& folder) {
  Samples samples = small_samples(1, 122);
  std::vector<float> weights;
  for (uint64_t s = 0; s < samples.size(); ++s) weights.push_back(float(s % 3));
  samples.columns.push_back({"weight", Array::from(std::move(weights)), {}});
  write_screen(folder / "screen", {small_graph(1), samples, {thirds_split(122)}, {}});
}

// ---- what both ranks do
struct Outcome {
  at::Tensor weights;  // all of the model's
  double loss = 0;     // of the samples of the last epoch
  Predictions predictions;
};

Outcome train_in_f64(const fs::path& folder, const char* model, Group& group) {
  at::set_num_threads(1);
  const Config config = config_of(folder, {model});
  ScreenTask task(open_session(
      config, [](const std::string&) {}, Progress::none(), group));
  task.model().to(at::kDouble);
  Loop loop(task);
  for (int epoch = 0; epoch < 2; ++epoch) {
    loop.stepper().clear_sums();
    while (loop.step()) continue;
  }
  std::vector<at::Tensor> all;
  for (const at::Tensor& parameter : task.model().parameters())
    all.push_back(parameter.detach().flatten());
  ScreenSession& session = task.session();
  return {at::cat(all), loop.stepper().loss_sum(),
          predict_samples(session, session.samples(Part::validation), 0)};
}

RunEnd train_run(const fs::path& folder, Group& group, TrainListener& listener) {
  at::set_num_threads(1);
  return train(config_of(folder), {.out = folder / "two", .resume = true, .tensorboard = true},
               listener, group);
}

TEST(TwoRanks, DISABLED_Other) {
  const char* asked = std::getenv(kWork);
  if (!asked) GTEST_SKIP() << "started by the tests below";
  const std::string all = asked, work = all.substr(0, all.find(' '));
  const fs::path folder = all.substr(all.find(' ') + 1);
  SocketGroup group(1, kSocket);
  if (work == "run") {
    const rlimit nothing = {0, 0};  // a byte written to a file ends this process
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &nothing), 0);
    struct Deaf : TrainListener {
      void note(const std::string& words) override { FAIL() << words; }
      void begin(const std::string& words) override { FAIL() << words; }
      void step(const TrainProgress&) override { FAIL(); }
    } listener;
    EXPECT_EQ(train_run(folder, group, listener), RunEnd::finished);
    return;
  }
  const Outcome mine = train_in_f64(folder, work.c_str(), group);
  const at::Tensor weights = mine.weights.clone();
  group.sum(weights);
}

class TwoRanksInF64 : public ::testing::TestWithParam<const char*> {};

TEST_P(TwoRanksInF64, TakeTheStepsOfOne) {
  const TemporaryDirectory folder;
  write_weighted_screen(folder.path());
  const Outcome one = train_in_f64(folder.path(), GetParam(), Group::alone());
  OtherRank other(GetParam(), folder.path());
  const Outcome two = train_in_f64(folder.path(), GetParam(), *other.group);
  const at::Tensor both = two.weights.clone();
  other.group->sum(both);
  EXPECT_TRUE(at::equal(both, 2 * two.weights)) << "the ranks have other weights";
  EXPECT_LT((two.weights - one.weights).abs().max().item<double>(), 1e-12);
  EXPECT_NEAR(two.loss, one.loss, 1e-12 * one.loss);
  EXPECT_EQ(two.predictions.samples, one.predictions.samples);
  ASSERT_EQ(two.predictions.predicted.size(), one.predictions.predicted.size());
  for (size_t i = 0; i < one.predictions.predicted.size(); ++i)
    EXPECT_NEAR(two.predictions.predicted[i], one.predictions.predicted[i], 1e-5);
  EXPECT_EQ(other.end(), 0);
}

INSTANTIATE_TEST_SUITE_P(Models, TwoRanksInF64,
                         ::testing::Values("model.layers=2", "train.accumulate=2",
                                           "train.loss=huber", "rung=worker", "model.dropout=0.3",
                                           "model.merge=pairwise"));

TEST(TwoRanks, OnlyTheFirstWritesARun) {
  const TemporaryDirectory folder;
  write_weighted_screen(folder.path());
  TrainListener nobody;
  at::set_num_threads(1);
  ASSERT_EQ(train(config_of(folder.path()), {.out = folder / "one"}, nobody), RunEnd::finished);
  OtherRank other("run", folder.path());
  struct Steps : TrainListener {
    void step(const TrainProgress&) override { ++count; }
    int count = 0;
  } heard;
  ASSERT_EQ(train_run(folder.path(), *other.group, heard), RunEnd::finished);
  EXPECT_EQ(other.end(), 0) << "rank 1 wrote to a file, spoke, or failed";
  EXPECT_EQ(heard.count, 12);
  const auto one = Run::open(folder / "one"), two = Run::open(folder / "two");
  EXPECT_EQ(two.info().at("status"), "finished");
  EXPECT_EQ(std::ranges::count(read_text(two.path() / "metrics.jsonl"), '\n'), 14);
  const Safetensors ours = read_checkpoint(two.checkpoint("last"));
  for (const auto& [name, array] : read_checkpoint(one.checkpoint("last")).arrays)
    EXPECT_TRUE(at::allclose(to_tensor(array), to_tensor(ours.arrays.at(name)), 1e-2, 1e-3))
        << name;
  const Evaluation a = read_evaluation(one.path()), b = read_evaluation(two.path());
  ASSERT_EQ(a.parts.size(), b.parts.size());
  EXPECT_NEAR(a.parts[0].labels[0].scores[0].metrics.mse,
              b.parts[0].labels[0].scores[0].metrics.mse, 1e-3);
}

}  // namespace
}  // namespace lacuna
