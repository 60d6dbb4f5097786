# cmake --install: filled by the packaging room.
