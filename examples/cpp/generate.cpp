// Text from a model folder, without Python: token ids in, token ids out.
//   gpk_generate MODEL_FOLDER COUNT TOKEN...
// Without a GPU it says so and exits with 1; with PYGPUKIT_DEVICE=sim it runs a small model in the
// simulator.
#include <gpk.h>
#include <jit/bundle.h>
#include <llm/generation.h>
#include <llm/model_folder.h>

#include <cstdint>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

extern "C" {
extern const char gpk_bundle_begin[];
extern const char gpk_bundle_end[];
}

int main(int argc, char** argv) {
  if (argc < 4) {
    std::cerr << "usage: " << argv[0] << " MODEL_FOLDER COUNT TOKEN...\n";
    return 2;
  }
  try {
    const gpk::Device device = gpk::default_device();
    std::cerr << "device " << gpk::to_string(device) << '\n';
    if (!device.is_cuda()) {
      std::cerr << "no GPU; PYGPUKIT_DEVICE=sim runs small models in the simulator\n";
      return 1;
    }
    gpk::jit::set_bundle(std::string_view(gpk_bundle_begin, gpk_bundle_end));

    std::vector<std::int32_t> prompt;
    for (int i = 3; i < argc; ++i) prompt.push_back(std::stoi(argv[i]));
    const auto model = gpk::llm::load_model(argv[1], device, {});
    const auto runner = std::make_shared<gpk::llm::Runner>(model, gpk::llm::RunnerOptions{});
    gpk::llm::GenerationOptions options;
    options.max_new_tokens = std::stoll(argv[2]);
    const auto texts = gpk::llm::generate(runner, {prompt}, options);
    for (const std::int32_t token : texts.front()) std::cout << token << ' ';
    std::cout << '\n';
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
