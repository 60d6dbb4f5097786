#include "lacuna/train/export.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "lacuna/core/error.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/load/loader.h"
#include "lacuna/screen/screen_batch.h"
#include "lacuna/store/npz.h"
#include "lacuna/train/session.h"

namespace lacuna {
namespace {

std::vector<uint32_t> samples_of(const ScreenSession& session, const std::string& part) {
  if (part == "all") {
    std::vector<uint32_t> all(session.screen.samples().size());
    std::iota(all.begin(), all.end(), 0u);
    return all;
  }
  std::vector<uint32_t> chosen = session.samples(part_from_name(part));
  if (chosen.empty())
    throw Error("split '{}' has no {} samples; choose another --part", session.split.name, part);
  return chosen;
}

at::Tensor on_host(const at::Tensor& tensor) {
  return tensor.to(at::kCPU, at::kFloat).contiguous();
}

std::span<const float> elements(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<float>(), size_t(tensor.numel())};
}

// Writes the arrays as the batches bring them.
class EmbeddingFile {
 public:
  EmbeddingFile(const fs::path& path, const Names& genes, const std::vector<uint32_t>& samples)
      : file_(path), genes_(genes), samples_(samples) {}

  void add(const std::map<std::string, at::Tensor>& embeddings) {
    const auto pooled = embeddings.find("pooled");
    if (result_.genes == 0) begin(on_host(embeddings.at("genes")), pooled != embeddings.end());
    if (pooled == embeddings.end()) return;
    const at::Tensor states = on_host(pooled->second);  // [B, H]
    if (result_.samples == 0) pooled_ = file_.add("pooled", DType::f32, shape_of(states));
    file_.append<float>(pooled_, elements(states));
    result_.samples += uint64_t(states.size(0));
  }
  bool has_pooled() const { return result_.samples > 0; }

  ExportResult close() {
    file_.close();
    return result_;
  }

 private:
  void begin(const at::Tensor& genes, bool has_pooled) {  // [N, H]
    LACUNA_ASSERT(uint64_t(genes.size(0)) == genes_.size());
    result_.genes = genes_.size();
    result_.width = uint64_t(genes.size(1));
    const size_t array = file_.add("genes", DType::f32, {result_.genes, result_.width});
    file_.append<float>(array, elements(genes));
    file_.add("gene_names", genes_.all());
    if (has_pooled) file_.add("samples", Array::from(samples_));
  }
  Shape shape_of(const at::Tensor& pooled) const {
    return {samples_.size(), uint64_t(pooled.size(1))};
  }

  NpzWriter file_;
  const Names& genes_;
  const std::vector<uint32_t>& samples_;
  size_t pooled_ = 0;
  ExportResult result_;
};

}  // namespace

ExportResult export_embeddings(const Run& run, const ExportRequest& request, Progress& progress,
                               const std::function<void(const std::string&)>& note) {
  if (request.out.extension() != ".npz")
    throw UsageError("embeddings go into a file that ends in .npz, not '{}'", request.out.string());
  const std::string checkpoint = choose_checkpoint(run, request.checkpoint);
  ScreenSession session = open_run(run, checkpoint, request.device, request.screen, note);
  session.model->eval();
  const at::NoGradGuard guard;
  const Names& genes = session.screen.graph().genes().names;
  const std::vector<uint32_t> samples = samples_of(session, request.part);
  const uint64_t batch = std::max<uint64_t>(1, uint64_t(session.config.train.batch));
  Loader loader(ScreenSource(session.screen.samples(), genes.size(), {.selection = samples}),
                {.order = {.global_batch = batch, .shuffled = false}, .threads = 1});
  EmbeddingFile file(request.out, genes, samples);
  uint64_t done = 0;
  progress.begin("exporting", samples.size(), "samples");
  while (const auto next = loader.next()) {
    throw_if_stopped();
    const ModelInput input = to_device(make_input(next->removed(), next->ptr()), session.device());
    file.add(session.model->embeddings(input));
    progress.advance(done += next->size());
    if (!file.has_pooled()) {
      note("this model has no pooled states: only the genes are exported");
      break;
    }
  }
  progress.end();
  ExportResult result = file.close();
  result.checkpoint = checkpoint;
  return result;
}

}  // namespace lacuna
