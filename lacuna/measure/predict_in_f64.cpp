#include "lacuna/measure/predict_in_f64.h"

#include <ATen/ATen.h>

#include <utility>

#include "lacuna/load/loader.h"
#include "lacuna/train/batch_feed.h"
#include "lacuna/train/checkpoint.h"

namespace lacuna {

std::vector<double> predict_in_f64(const Config& config, const fs::path& checkpoint,
                                   std::vector<uint32_t> samples, const Note& note) {
  Config in_f32 = config;
  in_f32.train.precision = "f32";  // else the model would compute in bf16, whatever its weights
  Session session = open_session(in_f32, note);
  load_weights(read_checkpoint(checkpoint), checkpoint, *session.model);
  session.model->to(at::kDouble);
  session.model->eval();
  const at::NoGradGuard guard;
  const auto batch = uint64_t(session.config.train.batch);
  const RungSource source(session.screen, session.masks, batch, {.selection = std::move(samples)});
  Loader loader(source, {.order = {.global_batch = batch, .shuffled = false}, .threads = 0});
  std::vector<double> predicted;
  while (const auto next = loader.next()) {
    ModelInput input = make_input(next->samples().removed(), next->samples().ptr());
    input.masks = mask_tensor(*next, session.masks);
    const at::Tensor out = session.model->forward(to_device(input, session.device()))
                               .to(at::kCPU, at::kDouble)
                               .contiguous();  // [B, L]
    predicted.insert(predicted.end(), out.const_data_ptr<double>(),
                     out.const_data_ptr<double>() + out.numel());
  }
  return predicted;
}

}  // namespace lacuna
