// Text from a model folder, without Python: token ids in, token ids out.
//   gpk_generate MODEL_FOLDER 3 888 1024
// Without a GPU it prints the reason and exits with 0.
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
  if (argc < 3) {
    std::cerr << "usage: " << argv[0] << " MODEL_FOLDER TOKEN...\n";
    return 2;
  }
  try {
    const gpk::Device device = gpk::default_device();
    std::cout << "device " << gpk::to_string(device) << '\n';
    if (!device.is_cuda()) return 0;
    gpk::jit::set_bundle(std::string_view(gpk_bundle_begin, gpk_bundle_end));

    std::vector<std::int32_t> prompt;
    for (int i = 2; i < argc; ++i) prompt.push_back(std::stoi(argv[i]));
    const auto model = gpk::llm::load_model(argv[1], device, {});
    const auto runner = std::make_shared<gpk::llm::Runner>(model, gpk::llm::RunnerOptions{});
    for (const std::int32_t token : gpk::llm::generate(runner, {prompt}, {.max_new_tokens = 32})[0])
      std::cout << token << ' ';
    std::cout << '\n';
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
