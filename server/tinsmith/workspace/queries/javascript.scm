(class_declaration name: (_) @name) @class
(function_declaration name: (_) @name) @function
(generator_function_declaration name: (_) @name) @function
(method_definition name: (_) @name) @method
(class_body (field_definition property: (_) @name value: [(arrow_function) (function_expression)]) @method)
(program (lexical_declaration (variable_declarator name: (identifier) @name value: [(arrow_function) (function_expression) (generator_function)]) @function))
(export_statement (lexical_declaration (variable_declarator name: (identifier) @name value: [(arrow_function) (function_expression) (generator_function)]) @function))
(program (lexical_declaration (variable_declarator name: (identifier) @name value: (class)) @class))
(program (variable_declaration (variable_declarator name: (identifier) @name value: (function_expression)) @function))
(program (expression_statement (assignment_expression left: (member_expression) @name right: [(arrow_function) (function_expression)])) @function)
(program (lexical_declaration (variable_declarator name: (identifier) @name) @variable))
(export_statement (lexical_declaration (variable_declarator name: (identifier) @name) @variable))
(program (variable_declaration (variable_declarator name: (identifier) @name) @variable))
