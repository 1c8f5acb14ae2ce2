// see convert_node.h
