(namespace_definition name: (_) @name) @module
(class_specifier name: (_) @name body: (_)) @class
(struct_specifier name: (_) @name body: (_)) @struct
(union_specifier name: (_) @name body: (_)) @union
(enum_specifier name: (_) @name body: (_)) @enum
(concept_definition name: (_) @name) @type
(function_definition declarator: [
  (function_declarator declarator: (_) @name)
  (reference_declarator (function_declarator declarator: (_) @name))
  (pointer_declarator declarator: (function_declarator declarator: (_) @name))
  (pointer_declarator declarator: (pointer_declarator declarator: (function_declarator declarator: (_) @name)))
]) @function
(alias_declaration name: (_) @name) @type
(type_definition declarator: (type_identifier) @name) @type
(preproc_def name: (_) @name) @macro
(preproc_function_def name: (_) @name) @macro
(field_declaration declarator: [
  (function_declarator declarator: (_) @name)
  (reference_declarator (function_declarator declarator: (_) @name))
  (pointer_declarator declarator: (function_declarator declarator: (_) @name))
]) @declaration
(declaration declarator: [
  (function_declarator declarator: [(identifier) (destructor_name) (operator_name)] @name)
  (reference_declarator (function_declarator declarator: [(identifier) (operator_name)] @name))
  (pointer_declarator declarator: (function_declarator declarator: (identifier) @name))
]) @declaration
(translation_unit (declaration declarator: (init_declarator declarator: (identifier) @name)) @variable)
(namespace_definition body: (declaration_list (declaration declarator: (init_declarator declarator: (identifier) @name)) @variable))
