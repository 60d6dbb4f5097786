// What every model of a screen is: a module that turns the removed genes of a batch into
// predictions.
//
// A model lives on one device with its graph. Adding one is a file with a class, and in it a line
// with add_model() (docs/add-a-model.md).
#pragma once

#include <torch/nn/module.h>
#include <torch/version.h>
#include <yaml-cpp/yaml.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lacuna/nn/gene_graph.h"
#include "lacuna/nn/hidden_genes.h"
#include "lacuna/run/model_settings.h"

namespace lacuna {

class Model : public torch::nn::Module {
 public:
  // Predicted labels, standardised (mean 0 and sd 1 on the training split). [B, L] f32, or f64
  // where the parameters are.
  virtual at::Tensor forward(const ModelInput& input) = 0;
  // What is minimised: the loss of the predictions that forward() has just given (a scalar),
  // together with whatever else the model wants small. epoch counts from 0.
  virtual at::Tensor total_loss(const at::Tensor& prediction_loss, int64_t epoch);
  // Whether every step computes the same but for its input, so that one recorded step can be
  // replayed: false where the loss depends on the epoch.
  virtual bool is_static() const { return true; }
  // Whether forward() looks at the masks of its input where there are some. Those that sum from the
  // removed genes, or over the wild type alone, say false: then none are made for them.
  virtual bool reads_masks() const { return true; }
  // Whether it depends on the graph's features, or on its reactions and metabolites: what it does
  // not read may change behind a checkpoint.
  virtual bool reads_features() const { return true; }
  virtual std::vector<std::string> feature_names() const { return {}; }  // none named: all
  virtual bool reads_weights() const { return false; }  // values of edges between genes
  virtual bool reads_metabolism() const { return true; }
  // From here to keep_wild_type(false) parameters stay as they are and dropout is off: what
  // forward() computes of the wild type without gradients may be kept from one call to the next.
  virtual void keep_wild_type(bool) {}
  // How many samples at a time are predicted best where there is no backward pass; 0: any number.
  virtual int64_t samples_at_a_time() const { return 0; }
  // Vectors worth keeping: "genes" [N, H] of the wild type, "pooled" [B, H] of the samples.
  virtual std::map<std::string, at::Tensor> embeddings(const ModelInput& input) = 0;

  // ---- hidden genes (hidden_genes.h)
  // The learned rows [N, H] of the genes, one of each; undefined where the model has none. A model
  // that has some starts from visible_rows().
  virtual at::Tensor gene_rows() const { return {}; }
  // Gives the model a row for unknown genes, the parameter "hidden.unknown", which stands for those
  // of `unseen`, and while training for those that are drawn. Throws Error where the model has no
  // learned rows.
  void hide_genes(const std::vector<int64_t>& unseen);
  HiddenGenes* hidden_genes() const { return hidden_.get(); }  // null where none are hidden

  // bf16: states and products in bf16, sums in f32, parameters as they are. undefined: as the
  // parameters.
  void compute_in(std::optional<at::ScalarType> dtype) { dtype_ = dtype; }
  int64_t parameter_count() const;

 protected:
  // To what the model computes in, and back to f32 where that is bf16.
  at::Tensor cast(const at::Tensor& x) const { return dtype_ ? x.to(*dtype_) : x; }
  static at::Tensor wide(const at::Tensor& x) {
    return x.scalar_type() == at::kBFloat16 ? x.to(at::kFloat) : x;
  }
  // gene_rows(), those of hidden genes replaced.
  at::Tensor visible_rows() const { return hidden_ ? hidden_->forward(gene_rows()) : gene_rows(); }
  // While training, x [B, ..] with a share p of its numbers set to 0 and the rest scaled up; a row
  // is a sample of the input. It is drawn for the global batch, so that any number of ranks drops
  // the same. (What all samples share takes at::dropout: ranks draw alike.)
  at::Tensor drop_out(const at::Tensor& x, double p, const ModelInput& input) const;

 private:
  std::optional<at::ScalarType> dtype_;
  std::shared_ptr<HiddenGenes> hidden_;
};

// Makes a model known by name, with the YAML text of its settings and their defaults (`name` among
// them), which lives as long as the program. A line in the file of the model, outside of every
// function:
//   const bool known = add_model<Dango>("dango", kDefaults);
// False where that cannot be, which a plugin (run/plugin/plugin.h) is told when it is loaded.
using ModelMaker = std::shared_ptr<Model> (*)(YAML::Node settings, const GeneGraph& graph,
                                              int64_t label_count);
// What a file with a model was compiled with; a plugin that was compiled with other headers would
// crash, and is refused.
struct ModelHeaders {
  int torch_major, torch_minor;
  size_t model_bytes, graph_bytes, input_bytes;
  bool operator==(const ModelHeaders&) const = default;
};
constexpr ModelHeaders kModelHeaders = {TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR, sizeof(Model),
                                        sizeof(GeneGraph), sizeof(ModelInput)};
bool add_model(const std::string& name, const char* defaults, ModelMaker maker,
               const ModelHeaders& headers = kModelHeaders);
template <class Kind>
bool add_model(const std::string& name, const char* defaults) {
  return add_model(
      name, defaults, [](YAML::Node settings, const GeneGraph& graph, int64_t label_count) {
        return std::shared_ptr<Model>(std::make_shared<Kind>(settings, graph, label_count));
      });
}

// Makes the model that `settings` ask for (their key `name`), on the graph's device, with weights
// drawn from `seed` (the same on every device). The settings that were left out are added, as
// complete_model() (model_settings.h) does. Throws Error naming an unknown model, key or value,
// with those that there are.
std::shared_ptr<Model> make_model(YAML::Node settings, const GeneGraph& graph, int64_t label_count,
                                  uint64_t seed);
}  // namespace lacuna
