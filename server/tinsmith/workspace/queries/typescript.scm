(abstract_class_declaration name: (_) @name) @class
(class_declaration name: (_) @name) @class
(interface_declaration name: (_) @name) @interface
(enum_declaration name: (_) @name) @enum
(type_alias_declaration name: (_) @name) @type
(internal_module name: (_) @name) @module
(module name: (_) @name) @module
(function_signature name: (_) @name) @declaration
(abstract_method_signature name: (_) @name) @method
(interface_body (method_signature name: (_) @name) @method)
(function_declaration name: (_) @name) @function
(generator_function_declaration name: (_) @name) @function
(method_definition name: (_) @name) @method
(class_body (public_field_definition name: (_) @name value: [(arrow_function) (function_expression)]) @method)
(program (lexical_declaration (variable_declarator name: (identifier) @name value: [(arrow_function) (function_expression) (generator_function)]) @function))
(export_statement (lexical_declaration (variable_declarator name: (identifier) @name value: [(arrow_function) (function_expression) (generator_function)]) @function))
(program (lexical_declaration (variable_declarator name: (identifier) @name value: (class)) @class))
(program (variable_declaration (variable_declarator name: (identifier) @name value: (function_expression)) @function))
(program (expression_statement (assignment_expression left: (member_expression) @name right: [(arrow_function) (function_expression)])) @function)
(program (lexical_declaration (variable_declarator name: (identifier) @name) @variable))
(export_statement (lexical_declaration (variable_declarator name: (identifier) @name) @variable))
(program (variable_declaration (variable_declarator name: (identifier) @name) @variable))
