"""Print the folders to search for the NVRTC wheel that builds the PTX bundle; ';' between."""

import os
import sysconfig


def main() -> None:
    roots = [r for r in os.environ.get("PYGPUKIT_BUNDLE_ROOTS", "").split(os.pathsep) if r]
    roots += [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    print(";".join(dict.fromkeys(os.path.realpath(r).replace("\\", "/") for r in roots)))


if __name__ == "__main__":
    main()
