// The engine of language models: requests in, events out.
#include <cstring>

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/text.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "core/config.h"
#include "core/device.h"
#include "llm/engine.h"

namespace gpk::bind {
namespace {

using llm::Engine;
using llm::EngineMetrics;
using llm::Model;
using llm::Runner;
using Tokens = std::vector<std::int32_t>;

struct EngineSettings {
  llm::RunnerOptions runner;
  llm::EngineOptions engine;
  std::int64_t max_rows = 0;
  bool use_graph = true;
};

// Of max_rows texts of full length.
std::int64_t most_pages(const EngineSettings& s) {
  return s.max_rows * ceil_div(s.runner.max_length, s.runner.page);
}

// Pages in so many bytes; 0: most_pages(), in up to half of what is free.
std::int64_t pages_in(std::int64_t bytes, const Model& model, const EngineSettings& s,
                      const char* argument) {
  const auto page_bytes = static_cast<std::int64_t>(llm::KvPages::page_bytes(
      model.config(), cache_dtype(model, s.runner.kv_dtype), s.runner.page));
  if (bytes > 0) {
    if (bytes < page_bytes)
      throw InvalidArgument(cat("Engine: ", argument, " is ", bytes, " bytes, expected at least ",
                                page_bytes, ", a page of ", s.runner.page, " tokens"));
    return bytes / page_bytes;
  }
  const auto half = static_cast<std::int64_t>(memory_info(model.device()).free_bytes / 2);
  return std::max<std::int64_t>(std::min(most_pages(s), half / page_bytes), 1);
}

// The engine with its clock. Its thread may need the GIL before it ends.
class EngineObject {
 public:
  EngineObject(const std::shared_ptr<Model>& model, const EngineSettings& settings) {
    const WithoutGil released;
    auto runner = std::make_shared<Runner>(model, settings.runner);
    auto passes = llm::make_engine_passes(runner, settings.max_rows, settings.use_graph);
    engine_ = std::make_unique<Engine>(std::move(passes), runner->shared_pages(), settings.engine,
                                       clock_);
    max_length_ = runner->options().max_length;
    page_ = runner->options().page;
  }
  ~EngineObject() {
    const WithoutGil released;
    engine_.reset();
  }
  EngineObject(const EngineObject&) = delete;
  EngineObject& operator=(const EngineObject&) = delete;

  [[nodiscard]] Engine& engine() { return *engine_; }
  [[nodiscard]] std::int64_t max_length() const { return max_length_; }
  [[nodiscard]] std::int64_t page() const { return page_; }

 private:
  SteadyClock clock_;
  std::unique_ptr<Engine> engine_;
  std::int64_t max_length_ = 0, page_ = 0;
};

std::unique_ptr<EngineObject> make_engine(const std::shared_ptr<Model>& model,
                                          std::int64_t max_batch, std::int64_t max_tokens,
                                          std::int64_t max_length, std::int64_t kv_memory,
                                          std::int64_t host_memory, std::int64_t page,
                                          bool prefix_cache, std::int64_t max_waiting, double aging,
                                          bool use_graph, py::handle kv_dtype, bool persistent) {
  const auto check = [](const char* what, std::int64_t value, std::int64_t least,
                        std::int64_t most) {
    if (value < least || value > most)
      throw InvalidArgument(
          cat("Engine: ", what, " is ", value, ", expected ", least, " to ", most));
  };
  constexpr std::int64_t kLargest = std::int64_t{1} << 50;
  check("max_batch", max_batch, 1, 1 << 16);
  check("kv_memory", kv_memory, 0, kLargest);
  check("host_memory", host_memory, -1, kLargest);
  check("page", page, 16, 1 << 20);
  check("chunk", max_tokens, 2, 1 << 20);
  const std::int64_t most = model->config().max_positions;
  check("max_length", max_length, 0, most);
  EngineSettings s;
  s.max_rows = max_batch;
  s.use_graph = use_graph;
  s.runner.page = page;
  s.runner.kv_dtype = optional_dtype(kv_dtype, "Engine");
  s.runner.persistent = persistent;
  s.runner.max_sequences = max_batch;
  s.runner.max_tokens = std::max(max_tokens, max_batch);
  s.runner.max_length = max_length > 0 ? max_length : std::min<std::int64_t>(most, 4096);
  s.runner.num_pages = pages_in(kv_memory, *model, s, "kv_memory");
  s.engine.prefix_cache = prefix_cache;
  // Allocated one by one when they are needed. Texts that grow together may swap out more than the
  // cache holds.
  s.engine.host_pages = host_memory < 0    ? std::max(s.runner.num_pages, most_pages(s))
                        : host_memory == 0 ? 0
                                           : pages_in(host_memory, *model, s, "host_memory");
  s.engine.max_waiting = max_waiting;
  s.engine.aging_ns = static_cast<std::int64_t>(aging * 1e9);
  return std::make_unique<EngineObject>(model, s);
}

// "1GiB", "50%" of the device's memory.
std::int64_t kv_bytes(const std::string& amount, const Model& model, const std::string& argument) {
  const std::optional<MemoryAmount> parsed = parse_memory_amount(amount);
  if (!parsed)
    throw InvalidArgument(cat("Engine: ", argument, " is '", shorten(amount, 80),
                              "', expected bytes, an amount like '8GiB', or a share like '50%'"));
  return static_cast<std::int64_t>(parsed->of(memory_info(model.device()).total_bytes));
}

// Calls function(token), which gives the bits as bytes, or None where the text ends.
llm::MaskFunction mask_from(const py::object& function) {
  if (function.is_none()) return {};
  return [kept = keep_alive(function)](std::int32_t token, std::span<std::uint32_t> bits) {
    const WithGil gil;
    const py::object result =
        call_function(py::handle(static_cast<PyObject*>(kept.get())), py::make_tuple(token));
    if (result.is_none()) return false;
    char* data = nullptr;
    Py_ssize_t size = 0;
    if (PyBytes_AsStringAndSize(result.ptr(), &data, &size) != 0) throw py::error_already_set();
    if (static_cast<std::size_t>(size) != bits.size_bytes())
      throw InvalidArgument(
          cat("submit: the grammar's mask has ", size, " bytes, expected ", bits.size_bytes()));
    std::memcpy(bits.data(), data, bits.size_bytes());
    return true;
  };
}

std::uint64_t submit_request(EngineObject& self, const Tokens& prompt, std::int64_t max_new_tokens,
                             double temperature, std::int64_t top_k, double top_p, double min_p,
                             double typical_p, double repetition_penalty, double presence_penalty,
                             double frequency_penalty, std::int64_t seed, std::int64_t logprobs,
                             const Tokens& stop_tokens, int qos, int priority, double deadline,
                             const py::object& mask) {
  llm::RequestOptions options;
  options.prompt = prompt;
  options.max_new_tokens = max_new_tokens;
  options.sampling = {
      temperature,       top_k, top_p,   min_p, typical_p, repetition_penalty, presence_penalty,
      frequency_penalty, seed,  logprobs};
  options.stop_tokens = stop_tokens;
  if (qos < 0 || qos > static_cast<int>(runtime::QosClass::kBestEffort))
    throw InvalidArgument(cat("submit: qos is ", qos, ", expected a QosClass"));
  options.qos = static_cast<runtime::QosClass>(qos);
  options.priority = priority;
  options.timeout_ns = static_cast<std::int64_t>(std::min(deadline, 1e9) * 1e9);
  options.mask = mask_from(mask);
  const WithoutGil released;
  return self.engine().submit(std::move(options));
}

// (id, tokens, [(logprob, [(id, logprob)])], reason or None, error, submitted, first, ended).
py::list wait_events(EngineObject& self, double timeout) {
  std::vector<llm::RequestEvent> events;
  {
    const WithoutGil released;
    events = self.engine().wait_events(static_cast<std::int64_t>(timeout * 1e9));
  }
  py::list list;
  for (const llm::RequestEvent& e : events) {
    py::list scores;
    for (const llm::TokenScore& score : e.scores)
      scores.append(py::make_tuple(score.logprob, score.top));
    const py::object end = e.end ? py::object(py::str(to_string(*e.end))) : py::none();
    list.append(py::make_tuple(e.id, e.tokens, scores, end, e.error, e.times.submitted_ns,
                               e.times.first_token_ns, e.times.ended_ns));
  }
  return list;
}

py::dict engine_metrics(EngineObject& self) {
  EngineMetrics m;
  {
    const WithoutGil released;
    m = self.engine().metrics();
  }
  py::dict result;
  const std::pair<const char*, std::int64_t> fields[] = {
      {"waiting", m.waiting},
      {"prefilling", m.prefilling},
      {"running", m.running},
      {"swapped", m.swapped},
      {"pages", m.pages},
      {"free_pages", m.free_pages},
      {"cached_pages", m.cached_pages},
      {"idle_pages", m.idle_pages},
      {"host_pages_used", m.host_pages_used},
      {"submitted", m.submitted},
      {"finished", m.finished},
      {"cancelled", m.cancelled},
      {"failed", m.failed},
      {"preemptions", m.preemptions},
      {"restores", m.restores},
      {"steps", m.steps},
      {"prefill_passes", m.prefill_passes},
      {"decode_steps", m.decode_steps},
      {"prompt_tokens", m.prompt_tokens},
      {"new_tokens", m.new_tokens},
      {"prefix_asked_tokens", m.prefix_asked_tokens},
      {"prefix_hit_tokens", m.prefix_hit_tokens},
      {"busy_ns", m.busy_ns},
      {"first_token_ns", m.first_token_ns},
      {"first_tokens", m.first_tokens},
  };
  for (const auto& [name, value] : fields) result[name] = value;
  return result;
}

}  // namespace

void bind_llm_engine(py::module_& m) {
  m.def("llm_kv_bytes", &kv_bytes, py::arg("amount"), py::arg("model"), py::arg("argument"),
        "Bytes that a text like '1GiB' or '50%' means on the model's device.");
  py::class_<EngineObject>(m, "LlmEngine", "Continuous batching of requests.")
      .def(py::init(&make_engine), py::arg("model"), py::arg("max_batch"), py::arg("max_tokens"),
           py::arg("max_length"), py::arg("kv_memory"), py::arg("host_memory"), py::arg("page"),
           py::arg("prefix_cache"), py::arg("max_waiting"), py::arg("aging"), py::arg("use_graph"),
           py::arg("kv_dtype") = py::none(), py::arg("persistent") = false)
      .def("submit", &submit_request, py::arg("prompt"), py::arg("max_new_tokens"),
           py::arg("temperature"), py::arg("top_k"), py::arg("top_p"), py::arg("min_p"),
           py::arg("typical_p"), py::arg("repetition_penalty"), py::arg("presence_penalty"),
           py::arg("frequency_penalty"), py::arg("seed"), py::arg("logprobs"),
           py::arg("stop_tokens"), py::arg("qos"), py::arg("priority"), py::arg("deadline"),
           py::arg("mask"), "Queues a request and returns its id.")
      .def(
          "cancel",
          [](EngineObject& self, std::uint64_t id) {
            const WithoutGil released;
            return self.engine().cancel(id);
          },
          py::arg("id"), "False where the request has ended.")
      .def("wait_events", &wait_events, py::arg("timeout"),
           "What happened since the last call; waits for it, up to a time in seconds.")
      .def(
          "step",
          [](EngineObject& self) {
            const WithoutGil released;
            return self.engine().step();
          },
          "One iteration; False when there is nothing to do.")
      .def(
          "start",
          [](EngineObject& self) {
            const WithoutGil released;
            self.engine().start();
          },
          "Steps on a thread, until close().")
      .def(
          "close",
          [](EngineObject& self) {
            const WithoutGil released;
            self.engine().close();
          },
          "Cancels what is left and ends the thread.")
      .def("metrics", &engine_metrics, "Counters and states.")
      .def_property_readonly("closed",
                             [](EngineObject& self) {
                               const WithoutGil released;
                               return self.engine().closed();
                             })
      .def_property_readonly("max_length", &EngineObject::max_length)
      .def_property_readonly("page", &EngineObject::page);
}

}  // namespace gpk::bind
