// Both programs start here.
#include "cli/program.h"

int main(int argc, char** argv) { return lacuna::cli::run_program(argc, argv); }
