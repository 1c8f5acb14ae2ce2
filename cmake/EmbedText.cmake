# cmake -DINPUT=f -DOUTPUT=f.cc -DNAME=kText -P EmbedText.cmake: a text file as a C++ string.
cmake_minimum_required(VERSION 3.25)
file(READ ${INPUT} TEXT)
file(WRITE ${OUTPUT} "#include <string_view>\nnamespace launch {\nextern const std::string_view ${NAME};\nconst std::string_view ${NAME} = R\"__text__(${TEXT})__text__\";\n}\n")
