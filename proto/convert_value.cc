// see convert_value.h
