// Decode steps of a language model without a text around them, for measurements.
#include <optional>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "bindings/bind.h"
#include "llm/decoder.h"

namespace gpk::bind {
namespace {

using llm::Runner;
using llm::Sequence;
using Tokens = std::vector<std::int32_t>;

// Steps of the same sequences, over and over.
class DecodeLoop {
 public:
  DecodeLoop(const std::shared_ptr<Runner>& runner, const std::vector<Sequence*>& sequences,
             Tokens tokens, bool use_graph)
      : sequences_(sequences), first_(std::move(tokens)) {
    if (sequences.empty() || sequences.size() != first_.size())
      throw InvalidArgument(cat("LlmDecoder: ", sequences.size(), " sequences and ", first_.size(),
                                " tokens, expected a token for each of one or more"));
    if (std::set<Sequence*>(sequences.begin(), sequences.end()).size() != sequences.size())
      throw InvalidArgument("LlmDecoder: a sequence is given twice");
    for (Sequence* const sequence : sequences) {
      if (sequence == nullptr)
        throw InvalidArgument(Error::Kind::kType,
                              "LlmDecoder: a sequence is None, expected LlmSequence");
      owners_.push_back(py::cast(sequence));
    }
    const WithoutGil released;
    decoder_.emplace(runner,
                     llm::Decoder::Options{static_cast<std::int64_t>(sequences.size()), use_graph});
  }

  // Every run starts at the end of the sequences, which stay as they are.
  void run(std::int64_t steps) {
    if (steps < 1) throw InvalidArgument(cat("run: steps is ", steps, ", expected 1 or more"));
    const WithoutGil released;
    std::vector<llm::DecodeRow> rows(sequences_.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      Sequence& sequence = *sequences_[i];
      sequence.reserve(sequence.length() + steps);
      rows[i].token = first_[i];
      rows[i].position = sequence.length();
      rows[i].table = sequence.table();
      rows[i].far = sequence.far();
    }
    decoder_->launch(rows);
    for (std::int64_t i = 1; i < steps; ++i) decoder_->launch();
  }

  [[nodiscard]] std::string explain() const { return decoder_->explain(); }

  Tokens tokens() {
    const WithoutGil released;
    const std::span<const std::int32_t> newest = decoder_->tokens();
    return {newest.begin(), newest.end()};
  }

 private:
  std::vector<Sequence*> sequences_;
  std::vector<py::object> owners_;
  Tokens first_;
  std::optional<llm::Decoder> decoder_;
};

}  // namespace

void bind_llm_decode(py::module_& m) {
  py::class_<DecodeLoop>(m, "LlmDecoder",
                         "Greedy decode steps of sequences, a token of each at a time.")
      .def(py::init<const std::shared_ptr<Runner>&, const std::vector<Sequence*>&, Tokens, bool>(),
           py::arg("runner"), py::arg("sequences"), py::arg("tokens"), py::arg("use_graph"))
      .def("run", &DecodeLoop::run, py::arg("steps"),
           "Starts steps after the sequences' ends, without a wait. The sequences stay as they "
           "are: each run overwrites the one before.")
      .def("explain", &DecodeLoop::explain, "How the layers of the newest step were launched.")
      .def("tokens", &DecodeLoop::tokens, "What the newest step sampled. Waits for it.");
}

}  // namespace gpk::bind
